"""What is called is right, and the fastest; answers are kept."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tensat_dl.torch  # noqa: E402
import tensat_dl.torch.prepare as prepare  # noqa: E402
import tensat_dl.torch.trials as trials  # noqa: E402
from tensat_dl.core.diagnostics import TsrError  # noqa: E402
from tensat_dl.kept import folder  # noqa: E402
from tensat_dl.measure.statistics import Latency  # noqa: E402
from tensat_dl.onnx.agreement import relative_error  # noqa: E402
from tensat_dl.torch import FallbackWarning  # noqa: E402

from .models import QUICK, joined  # noqa: E402

EXPORTED: list[Any] = []


@pytest.fixture
def exported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter takes a second for each module, and here all are `joined`."""
    to_onnx = prepare.to_onnx

    def first(*given: Any) -> Any:
        if not EXPORTED:
            EXPORTED.append(to_onnx(*given))
        return EXPORTED[0]

    monkeypatch.setattr(prepare, "to_onnx", first)


@pytest.mark.parametrize("fastest", ["module", "exported"])
def test_the_fastest_is_called(fastest: str, exported_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def times(runs: Any, threads: int) -> dict[str, Latency]:
        return {name: Latency(1.0 if name == fastest else 2.0, 0.0, 1) for name in runs}

    monkeypatch.setattr("tensat_dl.torch.prepare.times", times)
    module, x = joined(), torch.randn(4, 8)
    fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    assert fast.called == fastest
    with torch.no_grad():
        torch.testing.assert_close(fast(x)["a"], module(x)["a"], rtol=1e-4, atol=1e-5)


def test_all_three_are_measured(exported_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.torch.prepare.times", trials.times)
    fast = tensat_dl.torch.optimize(joined(), (torch.randn(4, 8),), **QUICK)
    text = fast.summary()
    for line in ("the module ", "ONNX Runtime as exported ", "the optimized graph ", "medians, in turn, "):
        assert line in text
    assert "threads of" in text or "thread of" in text


def test_a_model_that_computes_something_else_is_not_called(
    exported_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))

    def found(x: Any, y: Any) -> tuple[float, float]:
        """The first model differs."""
        return (1.0, 1e-4) if next(calls) == 0 else relative_error(x, y)

    monkeypatch.setattr("tensat_dl.torch.trials.relative_error", found)
    fast = tensat_dl.torch.optimize(joined(), (torch.randn(4, 8),), **QUICK)
    assert "ONNX Runtime as exported is not used: output 0 differs by 1.0e+00" in fast.summary()


class RoundsBesideLarge(torch.nn.Module):
    """Adding 1.5 * 2^23 and taking it away again rounds to whole numbers in f32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x + 12582912.0) - 12582912.0, x * 1e4], 1)


def test_small_numbers_beside_large_ones_have_to_agree() -> None:
    module, x = RoundsBesideLarge().eval(), torch.randn(16, 16)
    fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    assert "the optimized graph is not used: output 0 differs at " in fast.summary()
    assert torch.equal(fast(x), module(x))


def test_rules_of_ones_own(exported_once: None, tmp_path: Path) -> None:
    right, false = tmp_path / "mine.tsr", tmp_path / "false.tsr"
    right.write_text("rule mine { tanh(neg(x)) => neg(tanh(x)) }\n")
    false.write_text("rule no-tanh { tanh(x) => x }\n")
    module, x = joined(), torch.randn(4, 8)
    fast = tensat_dl.torch.optimize(module, (x,), rules=[right, "groups"], **QUICK)
    assert fast.called != "module"
    wrong = tensat_dl.torch.optimize(module, (x,), rules=[false], **QUICK)
    assert wrong.called == "exported"
    assert "rules were applied that are false: no-tanh" in wrong.summary()
    with pytest.raises(TsrError, match="no rule pack"):
        tensat_dl.torch.optimize(module, (x,), rules=["no-such-pack"], **QUICK)


class Searched(Exception):
    """Another search would begin."""


def test_answers_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def searched(*args: Any, **kwargs: Any) -> Any:
        raise Searched

    x = torch.randn(4, 8)
    tensat_dl.torch.optimize(joined(), (x,), **QUICK)
    monkeypatch.setattr("tensat_dl.torch.answers.optimize_model", searched)
    other = joined()
    other.load_state_dict({name: 2 * value for name, value in other.state_dict().items()})
    assert tensat_dl.torch.optimize(other, (x + 1,), **QUICK).called == "optimized"
    with pytest.raises(Searched):
        tensat_dl.torch.optimize(other, (x,), k_multi=2, **QUICK)
    (file,) = folder("torch").iterdir()
    file.write_bytes(file.read_bytes()[:100])  # as after a crash
    with pytest.raises(Searched):
        tensat_dl.torch.optimize(other, (x,), **QUICK)


def test_models_that_all_compute_something_else(exported_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.torch.trials.relative_error", lambda x, y: (1.0, 1e-4))
    with pytest.warns(
        FallbackWarning, match=r"exported is not used: output 0 differs.*; the optimized graph is"
    ):
        fast = tensat_dl.torch.optimize(joined(), (torch.randn(4, 8),), **QUICK)
    assert fast.called == "module"


class Causal(torch.nn.Module):
    """Attention to earlier places that are not masked."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        seen = torch.ones(n, n, dtype=torch.bool).tril() & (mask[:, None, None] > 0)
        x = x[:, None]  # a head
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=seen)


@pytest.mark.parametrize("open_sizes", [False, True])
def test_masks_that_are_drawn_have_the_rows_of_the_example(open_sizes: bool) -> None:
    """A place that may attend to none is one thing in PyTorch, and another in ONNX Runtime."""
    x, mask = torch.randn(2, 6, 8), torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
    n = torch.export.Dim("n", min=2, max=64)
    shapes = {"x": {1: n}, "mask": {1: n}} if open_sizes else None
    fast = tensat_dl.torch.optimize(Causal().eval(), (x, mask), dynamic_shapes=shapes, **QUICK)
    assert "is not used" not in fast.summary()
    assert not fast.declined


def test_threads_take_turns() -> None:
    """PyTorch's exporter serves one at a time; what it prints was lost for good otherwise."""
    modules = [torch.nn.Sequential(torch.nn.Linear(4, k), torch.nn.Tanh()).eval() for k in (3, 5, 6)]
    x = torch.randn(2, 4)
    usual = sys.stderr
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda m: tensat_dl.torch.optimize(m, (x,), **QUICK), modules))
    assert [fast.declined for fast in found] == ["", "", ""]
    assert sys.stderr is usual


class HooksItself(torch.nn.Module):
    """The library transformers adds hooks in the first call that asks for hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.inner._forward_hooks:
            self.inner.register_forward_hook(lambda module, args, result: None)
        return torch.tanh(self.inner(x))


def test_hooks_that_the_first_call_adds_are_usual() -> None:
    fast = tensat_dl.torch.optimize(HooksItself().eval(), (torch.randn(2, 4),), **QUICK)
    assert not fast.declined
    assert not fast.stale
