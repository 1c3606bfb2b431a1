"""Weights that change after a module was optimized."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning, NothingOptimized, Optimized  # noqa: E402
from tensat_dl.torch.weights import WeightsAsTheyWere  # noqa: E402

from .models import QUICK, joined  # noqa: E402


def loads(module: Any) -> None:
    module.load_state_dict({name: 2 * value for name, value in module.state_dict().items()})


def steps(module: Any) -> None:
    with torch.no_grad():
        module.left.weight -= 0.1


def replaces(module: Any) -> None:
    module.left.weight = nn.Parameter(torch.ones(16, 8))


def points_elsewhere(module: Any) -> None:
    module.left.bias.data = torch.ones(16)


def replaces_a_module(module: Any) -> None:
    module.right = nn.Linear(8, 16).eval()


def test_frozen_weights_are_not_looked_at() -> None:
    module, x = joined(), torch.randn(4, 8)
    fast = tensat_dl.torch.optimize(module, (x,), frozen=True, **QUICK)
    with torch.no_grad():
        before = fast(x)
        loads(module)
        assert "left.weight has changed" in fast.stale  # who asks is told
        assert torch.equal(fast(x)["a"], before["a"])
        fast.refresh()
        torch.testing.assert_close(fast(x)["a"], module(x)["a"], rtol=1e-4, atol=1e-5)


def gets_a_hook(module: Any) -> None:
    module.left.register_forward_hook(lambda module, inputs, output: None)


def exchanges_a_hook(module: Any) -> None:
    module.left._forward_hooks.clear()
    gets_a_hook(module)


def gets_a_bias(module: Any) -> None:
    module.free.bias = torch.nn.Parameter(torch.ones(16))


def gets_a_buffer(module: Any) -> None:
    module.left.register_buffer("mask", torch.ones(16))


def counts_otherwise(module: Any) -> None:
    module._times = 3


def differs_from_its_class(module: Any) -> None:
    module.factor = 3.0


def gets_a_function(module: Any) -> None:
    module.left.forward = lambda x: x @ torch.ones(8, 16)


def changes_one_of_a_list(module: Any) -> None:
    module.more[1].mul_(2)


def shortens_a_list(module: Any) -> None:
    del module.more[1]


CHANGES = [
    (loads, "left.weight has changed"),
    (steps, "left.weight has changed"),
    (replaces, "left.weight has changed"),
    (points_elsewhere, "left.bias has changed"),
    (replaces_a_module, "other submodules"),
    (gets_a_bias, "free.bias was None"),
    (gets_a_buffer, "other submodules, parameters or buffers"),
    (counts_otherwise, "_times was 2"),
    (gets_a_hook, "other hooks"),
    (exchanges_a_hook, "other hooks"),
]


def test_changes_are_noticed_and_folded_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    module, x = joined(), torch.randn(4, 8)
    module.free, module._times = torch.nn.Linear(8, 16, bias=False).eval(), 2
    fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    monkeypatch.setattr("tensat_dl.torch.answers.optimize_model", None)  # there is no other search
    monkeypatch.setattr("tensat_dl.torch.answers.kept", None)
    for change, said in CHANGES:
        before = fast._prepared.weights
        fast._prepared = replace(fast._prepared, weights=WeightsAsTheyWere(module))
        assert not fast.stale
        change(module)
        assert said in fast.stale
        assert before.changed()
        with torch.no_grad(), pytest.warns(FallbackWarning, match=said):
            torch.testing.assert_close(fast(x)["a"], module(x)["a"])
        fast._said.clear()
    with pytest.raises(NothingOptimized, match=r"call refresh\(\) first"):
        fast.save(tmp_path / "old.onnx")
    fast.refresh()
    assert (fast.stale, fast.called) == ("", "optimized")
    with torch.no_grad():
        torch.testing.assert_close(fast(x)["a"], module(x)["a"], rtol=1e-4, atol=1e-5)
    training_mode_is_noticed(fast)


def gets_a_tensor_for_a_number(module: Any) -> None:
    module.scale = torch.ones(2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (gets_a_tensor_for_a_number, "scale was 1"),
        (differs_from_its_class, "factor was that of its class"),
        (gets_a_function, "left.forward was that of its class"),
        (changes_one_of_a_list, "more.1 has changed"),
        (shortens_a_list, "more.1 has changed"),
    ],
)
def test_what_is_no_parameter_is_noticed(change: Any, said: str) -> None:
    module = joined()
    module.more, module.scale = [torch.ones(4), torch.ones(4)], 1
    then = WeightsAsTheyWere(module)
    assert not then.changed()
    change(module)
    assert said in then.changed()
    assert not WeightsAsTheyWere(module).changed()


OUTSIDE = torch.ones(8)


class UsesOthers(nn.Module):
    """Reads tensors that are no attributes of its own."""

    table = torch.ones(8)

    def __init__(self) -> None:
        super().__init__()
        self.nested = {"a": [torch.ones(8)]}

    def forward(self, x: torch.Tensor, by: torch.Tensor = torch.ones(8)) -> torch.Tensor:  # noqa: B008
        return torch.tanh(x * self.table) * OUTSIDE + torch.tanh(by * self.nested["a"][0])


@pytest.mark.parametrize(
    "tensor",
    [
        lambda m: m.table,
        lambda m: m.nested["a"][0],
        lambda m: m.forward.__defaults__[0],
        lambda m: OUTSIDE,
    ],
    ids=["class", "nested", "default", "global"],
)
def test_writes_to_tensors_from_elsewhere_are_noticed(tensor: Any) -> None:
    module, x = UsesOthers().eval(), torch.randn(4, 8)
    fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    assert (fast.called != "module", fast.stale) == (True, "")
    tensor(module).add_(1)
    assert fast.stale == "a tensor from outside of the module has changed since it was optimized"
    with pytest.warns(FallbackWarning, match="from outside of the module has changed"):
        torch.testing.assert_close(fast(x), module(x))
    fast.refresh()
    torch.testing.assert_close(fast(x), module(x))
    assert (fast.called != "module", fast.stale) == (True, "")


def test_what_no_call_asks_for_may_be_new() -> None:
    module = joined()
    then = WeightsAsTheyWere(module)
    module.remembered = torch.ones(3)
    assert not then.changed()
    assert then._untouched()


class KeepsResults(nn.Module):
    """Keeps what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(4, 4, 3))
        self.scores, self.kept = None, {}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.scores = torch.softmax(self.conv(x), -1)
        self.kept["y"] = y = torch.tanh(self.scores)
        return y, self.scores


class Tires(nn.Module):
    """Computes something else from the hundredth call on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(8, 8), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.relu(self.linear(x)) * (1.0 if self.calls < 100 else 0.5)


class TiresByTensor(Tires):
    """Counts in a tensor, of which each call makes another one."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return torch.relu(self.linear(x)) * torch.where(self.calls < 100, 1.0, 0.5)


@pytest.mark.parametrize("module", [Tires, TiresByTensor])
def test_a_module_that_counts_its_calls_runs_as_it_is(module: type[nn.Module]) -> None:
    with pytest.warns(FallbackWarning):
        fast = tensat_dl.torch.optimize(module().eval(), (torch.randn(4, 8),), **QUICK)
    assert "each call changes calls, on which later calls may depend" in fast.declined


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_what_a_call_puts_there_is_no_weight() -> None:
    module, x = KeepsResults().eval(), torch.randn(2, 4, 8)
    fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = module(x)
        assert (fast.declined, fast.stale) == ("", "")
        torch.testing.assert_close(fast(x), expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        module.conv.weight_g *= 2
    assert "conv.weight_g has changed" in fast.stale


def test_weights_that_the_first_call_makes() -> None:
    module, x = nn.Sequential(nn.LazyLinear(8), nn.ReLU()).eval(), torch.randn(4, 8)
    with pytest.warns(FallbackWarning, match=r"0\.weight is not initialized: call the module once"):
        fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    with torch.no_grad():
        expected = fast(x)
        fast.refresh()
        torch.testing.assert_close(fast(x), expected, rtol=1e-4, atol=1e-5)
    assert fast.called != "module"


def test_weights_in_a_list_may_require_gradients() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = [nn.Parameter(torch.randn(4, 4))]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x @ self.weights[0]) + torch.tanh(x @ self.weights[0])

    fast = tensat_dl.torch.optimize(Listed().eval(), (torch.randn(3, 4),), **QUICK)
    with pytest.warns(FallbackWarning, match="weights require gradients"):
        assert fast(torch.randn(3, 4)).requires_grad


def training_mode_is_noticed(fast: Optimized) -> None:
    fast.train()
    x = torch.randn(4, 8)
    torch.manual_seed(0)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="training was False"):
        found = fast(x)["a"]
    torch.manual_seed(0)
    torch.testing.assert_close(found, fast.module(x)["a"].detach())
    fast.eval()
    assert not fast.stale
