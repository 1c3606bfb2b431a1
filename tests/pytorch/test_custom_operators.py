"""Modules with custom operators: PyTorch runs these, and what lies between them may have models."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning, NothingOptimized, Optimized  # noqa: E402

from .models import QUICK  # noqa: E402


@torch.library.custom_op("tensat_dl_tests::halves", mutates_args=())
def halves(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (x * weight).chunk(2, -1)
    return first.clone(), second.clone()


@halves.register_fake
def _(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = x.chunk(2, -1)
    return torch.empty_like(first), torch.empty_like(second)


@torch.library.custom_op("tensat_dl_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


class Between(nn.Module):  # type: ignore[misc]
    """Two custom operators in turn, with weights before, in and after them."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(8, 16)
        self.scale = nn.Parameter(torch.linspace(1, 2, 16))
        self.down = nn.Linear(8, 16)
        self.register_buffer("offset", torch.ones(8), persistent=False)

    def forward(self, input: torch.Tensor, times: int = 2) -> Any:
        x = input
        joined = self.left(x) + self.right(x)
        first, second = torch.ops.tensat_dl_tests.halves(joined, self.scale)
        again, _ = torch.ops.tensat_dl_tests.halves(self.down(first + self.offset), self.scale)
        return {"again": torch.tanh(again) * times, "rest": [second, joined, None, x], "times": times}


class Counts(nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tensat_dl_tests.positive(x + 1) * 2


def between() -> Between:
    torch.manual_seed(0)
    return Between().eval().requires_grad_(False)


def same(fast: Any, module: Any, *args: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found, expected = fast(*args), module(*args)
    assert list(found) == list(expected)
    assert found["times"] == expected["times"]
    assert found["rest"][2:] == [None, args[0]]
    torch.testing.assert_close(found["again"], expected["again"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found["rest"][:2], expected["rest"][:2], rtol=1e-4, atol=1e-5)


@pytest.fixture
def fast() -> Optimized:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        return tensat_dl.torch.optimize(between(), (torch.randn(4, 8),), **QUICK)


def test_parts_between_custom_operators_have_models(fast: Optimized, tmp_path: Any) -> None:
    assert (fast.called, fast.declined) == ("optimized", "")
    for _ in range(2):
        same(fast, fast.module, torch.randn(4, 8))
    note = "PyTorch runs tensat_dl_tests::halves; ONNX Runtime runs 3 of the 3 parts"
    assert note in fast.summary()
    for write in (fast.save, fast.report):
        with pytest.raises(NothingOptimized, match="PyTorch runs tensat_dl_tests::halves"):
            write(tmp_path / "faster.onnx")
    with pytest.warns(FallbackWarning, match=r"input input is float32\[3, 8\]"):
        assert fast(torch.randn(3, 8))["again"].shape == (3, 8)


def test_their_weights_may_change(fast: Optimized) -> None:
    module, x = fast.module, torch.randn(4, 8)
    module.load_state_dict({name: 2 * value for name, value in module.state_dict().items()})
    assert "scale has changed" in fast.stale
    fast.refresh()
    assert fast.called == "optimized"
    same(fast, module, x)


def test_the_backend_cuts_as_well() -> None:
    torch.compiler.reset()
    module = between()
    compiled = torch.compile(module, backend="tensat", options=QUICK)
    for rows in (4, 5):
        same(compiled, module, torch.randn(rows, 8))


def test_a_part_that_gets_another_size_than_before() -> None:
    """The size of the operator's result depends on the values of its operand: PyTorch runs what takes that."""
    x = torch.tensor([1.0, -2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(Counts(), (x,), **QUICK)
        for given in (x, torch.ones(3), -2 * torch.ones(3)):
            assert torch.equal(fast(given), Counts()(given))


def test_open_dimensions_are_left_to_the_module() -> None:
    rows = torch.export.Dim("rows", min=1, max=64)
    with pytest.warns(FallbackWarning, match="No ONNX function found for .*halves"):
        fast = tensat_dl.torch.optimize(
            between(), (torch.randn(4, 8),), dynamic_shapes={"input": {0: rows}}, **QUICK
        )
    assert fast.called == "module"


class Inexact(nn.Module):  # type: ignore[misc]
    """Functions that the exporter makes of others, which are off for small numbers, zeros and multiples."""

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2 + 1
        return [
            torch.log1p(x),
            torch.expm1(x),
            torch.atan2(x * 0, x),
            x // 0.1,
            x % 0.1,
            5.0 % x,
            torch.div(x, 0.1, rounding_mode="trunc"),
            y @ y.t(),
        ]


class Untranslated(nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2
        return [torch.tanh(torch.linalg.inv(y @ y.t() + torch.eye(4))).kthvalue(2).values + 1]


class UntranslatedWithin(nn.Module):  # type: ignore[misc]
    """Operators of which the exporter makes others, which it then has no translation of."""

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.tanh(x).cumprod(0) / 2
        return [torch.copysign(torch.tanh(torch.erfinv(y)) + 1, x), torch.linalg.eigvalsh(x).exp()]


class Integers(nn.Module):  # type: ignore[misc]
    def forward(self, i: torch.Tensor) -> Any:
        x = torch.tanh(i.double())
        return [torch.div(i, 3, rounding_mode="floor"), i.prod(), i % 5, i % 0.1, i // 7, x @ x.t()]


class Means(nn.Module):  # type: ignore[misc]
    """The exporter takes the last of the numbers at one place for their mean, which a permutation does not tell."""

    def forward(self, i: torch.Tensor) -> Any:
        x = torch.tanh(i.float()) * 2 + 1
        z = torch.zeros(4, 4).scatter_reduce(0, i, x, "mean", include_self=False)
        return [z @ z.t()]


class Smoothed(nn.Module):  # type: ignore[misc]
    """The exporter leaves the smoothing of labels out."""

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2 + 1
        return [nn.functional.cross_entropy(y, torch.arange(4), label_smoothing=0.1), y @ y.t()]


class Selects(nn.Module):  # type: ignore[misc]
    """How many rows go through an operator that is left to PyTorch depends on values."""

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2 + 1
        return [torch.log1p(x[x > 0]) * 2 + 1, y @ y.t()]


@pytest.mark.parametrize(
    ("module", "example", "other", "atol"),
    [
        (
            Inexact(),
            torch.rand(4, 4),
            torch.tensor([[1e-6, -1e-8, 1.0, -0.5], [0.7, 2.0, -0.9, 1e-5]] * 2),
            0.0,
        ),
        (Integers(), torch.arange(1, 17).reshape(4, 4), torch.arange(2**40, 2**40 + 16).reshape(4, 4), 0.0),
        (Smoothed(), torch.rand(4, 4), torch.rand(4, 4) - 0.5, 1e-6),
        (Means(), torch.arange(4).repeat(4, 1).t(), torch.tensor([[0, 1, 1, 3]] * 4), 1e-4),
        (Selects(), torch.randn(4, 4), torch.randn(4, 4), 1e-4),
        (Untranslated(), torch.randn(4, 4), torch.randn(4, 4), 1e-4),
        (UntranslatedWithin(), torch.randn(4, 4), torch.randn(4, 4), 1e-4),
    ],
)
def test_operators_without_an_exact_translation_are_left_to_pytorch(
    module: nn.Module, example: torch.Tensor, other: torch.Tensor, atol: float
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, (example,), **QUICK)
        assert fast.called == "optimized"
        for ours, theirs in zip(fast(other), module(other), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=atol)


class Places(nn.Module):  # type: ignore[misc]
    """A code of places, which depends on weights alone, by operators that are left to PyTorch elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = 10 ** torch.div(torch.arange(8.0), 3, rounding_mode="floor")
        return torch.tanh(x) / step + torch.log1p(self.rates)


def test_what_depends_on_weights_alone_is_computed_ahead() -> None:
    """Then there is one model, which may have open dimensions."""
    module, rows = Places().eval(), torch.export.Dim("rows", min=1, max=64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(
            module, (torch.randn(4, 8),), dynamic_shapes={"x": {0: rows}}, **QUICK
        )
        for n in (4, 9):
            x = torch.randn(n, 8)
            torch.testing.assert_close(fast(x), module(x))
            module.rates.mul_(3)
            fast.refresh()
    assert fast.called != "module"
