"""The backend of `torch.compile`."""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tensat_dl.torch.backend as backend  # noqa: E402
from tensat_dl.torch import FallbackWarning, Optimized  # noqa: E402

from .models import QUICK, joined  # noqa: E402


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Optimized]:
    """What is optimized in a test."""
    found: list[Optimized] = []
    optimize = backend.optimize

    def recorded(*args: Any, **kwargs: Any) -> Optimized:
        found.append(optimize(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(backend, "optimize", recorded)
    torch.compiler.reset()
    return found


def test_the_backend_has_a_name() -> None:
    assert [e.value for e in entry_points(group="torch_dynamo_backends", name="tensat")] == [
        "tensat_dl.torch.backend:tensat"
    ]
    assert "tensat" in torch._dynamo.list_backends()


def test_once_for_each_shape_and_with_new_weights(made: list[Optimized]) -> None:
    module = joined()
    fast = torch.compile(module, backend=backend.tensat, options=QUICK)

    def agree(n: int) -> None:
        x = torch.randn(n, 8)
        torch.testing.assert_close(fast(x)["a"], module(x)["a"], rtol=1e-4, atol=1e-5)

    with torch.no_grad():
        for n in (4, 4, 6, 6):
            agree(n)
        assert len(made) == 2
        assert all(f.called == "optimized" and not f.declined for f in made)
        module.load_state_dict({name: 2 * value for name, value in module.state_dict().items()})
        agree(6)
        assert len(made) == 2  # the weights are folded anew, without another search
        module.left.weight = torch.nn.Parameter(torch.ones(16, 8))
        agree(6)


def test_layers_that_are_compiled_one_by_one(made: list[Optimized]) -> None:
    """They share a graph, and each has its weights: nothing is optimized again."""
    fast = backend.tensat(torch.fx.symbolic_trace(joined()), [], options=QUICK)
    weights = [[torch.nn.Parameter(torch.randn(3, 3))] for _ in range(3)]
    found = [fast._made_for(w) for w in (*weights, *weights)]
    assert all(a is b for a, b in zip(found[:3], found[3:], strict=True))
    assert len({*map(id, found)}) == 3


def test_weights_that_were_replaced_are_forgotten(made: list[Optimized]) -> None:
    fast = backend.tensat(torch.fx.symbolic_trace(joined()), [], options=QUICK)
    for _ in range(200):
        w = [torch.nn.Parameter(torch.randn(3))]
        assert all(fast._made_for(w) == {} for _ in range(20))
    assert len(fast._made) == 2


def test_frozen_weights(made: list[Optimized]) -> None:
    module, x = joined(), torch.randn(4, 8)
    fast = torch.compile(module, backend=backend.tensat, options={**QUICK, "frozen": True})
    with torch.no_grad():
        before = fast(x)["a"]
        module.load_state_dict({name: 2 * value for name, value in module.state_dict().items()})
        assert torch.equal(fast(x)["a"], before)


def test_strides_are_those_of_pytorch(made: list[Optimized]) -> None:
    """A program goes on with `view` beyond what is optimized, or asks for strides, which Dynamo knows."""

    def outputs(x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2
        return y.t(), y[:, 1:3], y.sum(0, keepdim=True).expand(5, 4), y.t().unsqueeze(0), y[0], y.t().stride()

    fast = torch.compile(outputs, backend=backend.tensat, options=QUICK)
    with torch.no_grad():
        for x in (torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(6, 8)[::2, ::2]):
            for _ in range(2):
                *found, said = fast(x)
                *expected, strides = outputs(x)
                torch.testing.assert_close(found, expected)
                assert [y.stride() for y in found] == [y.stride() for y in expected]
                assert said == strides
    assert "module" not in {m.called for m in made}


def test_many_shapes(made: list[Optimized], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "MOST_SHAPES", 1)
    monkeypatch.setattr(backend.OpenSizes, "of", lambda graph: None)
    module = torch.nn.ReLU()
    fast = torch.compile(module, backend=backend.tensat, options=QUICK, dynamic=True)
    with pytest.warns(FallbackWarning, match="for 1 combinations of shapes") as said:  # noqa: PT031
        for n in (4, 5, 6):
            assert torch.equal(fast(-torch.ones(n, 8)), torch.zeros(n, 8))
    assert (len(made), len(said)) == (1, 1)
    assert said[0].filename == __file__


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """A token attends to those before it, whose keys and values the caller keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
        q, k, v, out = self.parts
        keys, values = torch.cat([keys, k(x)], 1), torch.cat([values, v(x)], 1)
        share = torch.softmax(q(x) @ keys.transpose(1, 2) / 4.0 + keys.shape[1], -1)
        return out(share @ values) + x, keys, values


def test_a_cache_that_grows(made: list[Optimized]) -> None:
    """One model is for all lengths, once TorchDynamo sees that they vary."""
    module = Decoder().eval()
    fast = torch.compile(module, backend="tensat", options=QUICK)
    ours = theirs = (torch.randn(2, 3, 16), torch.randn(2, 3, 16))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(12):
            x = torch.randn(2, 1, 16)
            y, *ours = fast(x, *ours)
            expected, *theirs = module(x, *theirs)
            torch.testing.assert_close((y, *ours), (expected, *theirs), rtol=1e-4, atol=1e-5)
    assert [f.called for f in made] == ["optimized", "optimized"]


def test_sizes_that_are_equal_by_chance(made: list[Optimized]) -> None:
    """Those of an input that are one size in the first call may be two in the next. Outputs lie as in PyTorch."""
    fast = torch.compile(
        lambda x: (torch.tanh(x) * x).transpose(0, 1) + 1, backend="tensat", options=QUICK, dynamic=True
    )
    for shape in ((5, 5), (7, 7), (5, 6), (9, 4), (4, 4)):
        x = torch.randn(*shape)
        expected = (torch.tanh(x) * x).transpose(0, 1) + 1
        y = fast(x)
        torch.testing.assert_close(y, expected)
        assert y.stride() == expected.stride()
    assert len(made) <= 3


class Normed(torch.nn.Module):
    """The epsilon of a norm is a number of the module, and so is the factor."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.factor = torch.nn.LayerNorm(8), 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.norm(x)) * self.factor


def test_numbers_that_are_left_open(made: list[Optimized]) -> None:
    module = Normed().eval()
    fast = torch.compile(module, backend="tensat", options=QUICK, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for n, eps, factor in ((4, 1e-5, 0.5), (5, 1e-5, 0.5), (5, 0.1, 0.5), (6, 0.1, 0.0), (6, 0.1, -0.0)):
            module.norm.eps, module.factor = eps, factor
            x = torch.randn(n, 8) / 4
            y, expected = fast(x), module(x)
            torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
            assert torch.equal(y.signbit(), expected.signbit())
    assert len([f for f in made if not f.declined]) <= 4


def test_outputs_share_memory_where_sizes_are_open(made: list[Optimized]) -> None:
    def outputs(x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2
        return y, y[:, 1:].t(), x * 3, y[1:].unsqueeze(0)

    def written(x: torch.Tensor) -> Any:
        y, right, other, below = outputs(x)
        torch._dynamo.graph_break()
        right.add_(1)
        below.mul_(3)
        return y, right, other, below

    compiled = torch.compile(written, backend="tensat", options=QUICK, dynamic=True)
    with torch.no_grad():
        for shape in ((3, 4), (5, 6), (9, 3)):
            x = torch.randn(*shape)
            torch.testing.assert_close(compiled(x), written(x))
    assert [f.called != "module" for f in made if not f.declined] == [True]


def test_strides_that_divide_by_a_size(made: list[Optimized]) -> None:
    """They are not known for sizes of 1 as they are for even ones."""

    def pairs(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).reshape(x.shape[0], -1, 2).flip(1)

    compiled = torch.compile(pairs, backend="tensat", options=QUICK)
    with torch.no_grad():
        for shape in ((2, 4), (3, 6), (4, 8)):
            x = torch.randn(*shape)
            torch.testing.assert_close(compiled(x), pairs(x))
    assert len([f for f in made if not f.declined]) == 2


def test_gradients(made: list[Optimized]) -> None:
    module = joined()
    fast = torch.compile(module, backend=backend.tensat, options=QUICK)
    with pytest.warns(FallbackWarning, match="gradients are recorded"):
        fast(torch.randn(4, 8))["a"].sum().backward()
    assert module.left.weight.grad is not None
    assert not made


def test_outputs_share_memory_as_in_pytorch(made: list[Optimized]) -> None:
    """What is written to one of them beyond the graph is written to the others."""

    def outputs(x: torch.Tensor) -> Any:
        y = torch.tanh(x) * 2
        return y, y[:, :3].t(), y[1:].unsqueeze(0), y.sum(0).expand(5, 4)

    def written(x: torch.Tensor) -> Any:
        y, left, below, total = outputs(x)
        torch._dynamo.graph_break()
        left.add_(1)
        below.mul_(3)
        return y, left, below, total

    compiled, x = torch.compile(written, backend=backend.tensat, options=QUICK), torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), written(x))
    assert made[0].called != "module"


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tanh(x) * self.calls


def test_what_writes_to_its_buffers_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed: list[Optimized] = []
    monkeypatch.setattr(Optimized, "refresh", refreshed.append)
    torch.compiler.reset()
    compiled, x = torch.compile(Counts(), backend="tensat", options=QUICK), torch.ones(3)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="writes to its") as said:
        found = torch.stack([compiled(x) for _ in range(4)])
    torch.testing.assert_close(found, torch.tanh(x) * torch.arange(1, 5)[:, None])
    assert not refreshed
    assert len([w for w in said if w.category is FallbackWarning]) == 1


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)  # type: ignore[untyped-decorator]
def test_outputs_whose_sizes_depend_on_values() -> None:
    """They lie elsewhere at each call."""
    torch.compiler.reset()

    def positive(x: torch.Tensor) -> Any:
        found = torch.tanh(x)[x[:, 0] > 0]
        return found, found[:, :2], (x > 0).nonzero()

    compiled = torch.compile(positive, backend="tensat", options=QUICK, fullgraph=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for first in (0.5, -1.0, 3.0):
            x = torch.linspace(-1, 1, 24).reshape(6, 4) + first
            torch.testing.assert_close(compiled(x), positive(x))
