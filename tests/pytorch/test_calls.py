"""An optimized module is called as the module is: same structure, types and values; other calls go to the module."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning, NothingOptimized, Optimized  # noqa: E402

from .models import QUICK, Pair, joined  # noqa: E402

X = torch.randn(4, 8)


def same(a: Any, b: Any) -> None:
    """Both have one structure, types and, up to rounding, values."""
    assert type(a) is type(b)
    (x, structure), (y, other) = pytree.tree_flatten(a), pytree.tree_flatten(b)
    assert structure == other
    for p, q in zip(x, y, strict=True):
        if isinstance(p, torch.Tensor):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
        else:
            assert p == q


def optimized(*args: Any, **kwargs: Any) -> Optimized:
    """What is optimized without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        return tensat_dl.torch.optimize(*args, **QUICK, **kwargs)


@pytest.fixture(scope="module")
def fast() -> Optimized:
    """Made for `X` and no other argument."""
    return optimized(joined(), (X,), explained=True)


def test_structure_and_values(fast: Optimized) -> None:
    module, x = fast.module, X
    assert fast.called == "optimized"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        same(fast(x), module(x))
        same(fast(x=x, scale=1.0), module(x))
        transposed = torch.randn(8, 4).t()
        same(fast(transposed), module(transposed))
        first, second = fast(x), fast(x + 1)
    same(first["a"], module(x)["a"].detach())  # a later call has memory of its own
    assert not torch.equal(first["a"], second["a"])


def test_it_is_optimized_without_autocast() -> None:
    with torch.no_grad():
        with torch.autocast("cpu", torch.float16):
            fast = optimized(joined(), (X,))
        assert fast.called == "optimized"
        same(fast(X), fast.module(X))


class Both(nn.Module):
    def forward(self, x: Any, y: Any, z: Any) -> Any:
        return torch.relu(x) + y * 2 - z


def test_one_tensor_given_twice_is_two_inputs() -> None:
    module = Both()
    fast = optimized(module, (X, X), {"z": X})
    y, z = torch.randn(4, 8), torch.randn(4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        same(fast(X, X, z=X), module(X, X, z=X))
        same(fast(X, y, z=z), module(X, y, z=z))


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((torch.ones(3, 8),), r"input x is float32\[3, 8\], and it was made for float32\[4, 8\]"),
        ((torch.ones(4, 8), 2.0), "another structure"),
        ((torch.ones(4, 8).double(),), r"input x is float64\[4, 8\]"),
    ],
)
def test_other_calls_go_to_the_module(fast: Optimized, args: Any, reason: str) -> None:
    module = fast.module
    with torch.no_grad(), pytest.warns(FallbackWarning, match=reason) as said:  # noqa: PT031
        for _ in range(2):
            try:
                expected = module(*args)
            except RuntimeError as e:
                with pytest.raises(type(e)):
                    fast(*args)
            else:
                same(fast(*args), expected)
    assert len(said) == 1
    assert said[0].filename == __file__


def test_gradients_and_autocast_go_to_the_module(fast: Optimized) -> None:
    module, x = fast.module, X
    with pytest.warns(FallbackWarning, match="weights require gradients"):
        fast(x)["a"].sum().backward()
    assert module.left.weight.grad is not None
    module.requires_grad_(False)
    with pytest.warns(FallbackWarning, match="input x has to be given a gradient"):
        assert fast(x.clone().requires_grad_())["a"].requires_grad
    with torch.autocast("cpu", torch.bfloat16), pytest.warns(FallbackWarning, match="autocast is on"):
        assert fast(x)["a"].dtype == torch.bfloat16


def transformed() -> dict[str, Any]:
    """Uses of a module in which PyTorch has to see its operators."""
    forward_ad, x, t = torch.autograd.forward_ad, X, torch.randn(4, 8)

    def dual(module: Any) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(module(forward_ad.make_dual(x, t))).tangent

    return {
        "torch.jit traces it": lambda m: torch.jit.trace(m, (x,))(t),
        "a transformation of torch.func": lambda m: torch.vmap(m)(torch.stack([x, t])),
        "a TorchDispatchMode": lambda m: make_fx(m)(x)(t),
        "forward mode": dual,
    }


@pytest.mark.parametrize("reason", transformed())
def test_what_needs_to_see_operators_gets_the_module(reason: str) -> None:
    """Models have no operators for it: tangents were lost, and traces had the memory of outputs for constants."""
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval().requires_grad_(False)
    fast = optimized(module, (X,))
    use = transformed()[reason]
    with pytest.warns(FallbackWarning, match=reason):
        same(use(fast), use(module))


def test_outputs_are_on_the_cpu(fast: Optimized) -> None:
    """Whatever the default device is."""
    with torch.no_grad(), torch.device("meta"):
        same(fast(X), fast.module(X))


class Structured(nn.Module):
    def forward(self, pairs: dict[str, Pair], *, swap: bool) -> tuple[Pair, torch.Tensor]:
        p = pairs["p"]
        a, b = (p.second, p.first) if swap else (p.first, p.second)
        return Pair(a * 2 + b, torch.argmax(b, 0)), p.first


def test_dataclasses_inputs_that_are_passed_on_and_integers() -> None:
    pairs = {"p": Pair(torch.randn(4, 8), torch.randn(4, 8))}
    fast = optimized(Structured(), (pairs,), {"swap": True})
    found, passed = fast(pairs, swap=True)
    same(found, Structured()(pairs, swap=True)[0])
    with pytest.warns(FallbackWarning, match="input swap is False, and it was made for True"):
        same(fast(pairs, swap=False)[0], Structured()(pairs, swap=False)[0])
    assert passed is pairs["p"].first


def test_empty_and_unsized_tensors() -> None:
    class Picks(nn.Module):
        def forward(self, x: torch.Tensor, none: torch.Tensor) -> Any:
            return torch.cat([x, none]) * 2, none + 1, torch.nonzero(x > 0)

    x, none = torch.randn(4, 8), torch.zeros(0, 8)
    fast = optimized(Picks(), (x, none))
    same(fast(x, none), Picks()(x, none))
    same(fast(-x, none), Picks()(-x, none))
    assert fast.called != "module"


class Divides(nn.Module):
    def forward(self, x: torch.Tensor, by: float = 0.0) -> torch.Tensor:
        return torch.tanh(x) * torch.atan(1 / torch.tensor(by))


@pytest.mark.parametrize("given", [(), (0.0,)])
def test_zero_and_its_negative_are_two_constants(given: Any) -> None:
    fast = optimized(Divides(), (X, *given))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        same(fast(X, *given), Divides()(X))
    with pytest.warns(FallbackWarning):
        same(fast(X, -0.0), Divides()(X, -0.0))


def test_what_is_not_a_number_is_one_constant() -> None:
    fast = optimized(Divides(), (X, float("nan")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        assert fast(X, float("nan")).isnan().all()
    assert fast.called != "module"


class Own(torch.Tensor):
    """A tensor that may do anything."""


def test_an_example_that_models_do_not_take() -> None:
    with pytest.warns(FallbackWarning, match="input by is a Own, and it was made for tensors"):
        fast = tensat_dl.torch.optimize(Weighted(), (X, X.as_subclass(Own)), **QUICK)
    same(fast(X, X.as_subclass(Own)), Weighted()(X, X.as_subclass(Own)))


def test_a_program_of_torch_export() -> None:
    module, x = joined(), torch.randn(4, 8)
    fast = optimized(torch.export.export(module, (x,)))
    with torch.no_grad():
        same(fast(x), module(x))
    assert fast.called == "optimized"


def test_open_dimensions() -> None:
    module = joined()
    batch = torch.export.Dim("batch", min=2, max=64)
    fast = optimized(module, (torch.randn(4, 8),), dynamic_shapes={"x": {0: batch}})
    assert "some of other sizes" in fast.summary()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for n in (4, 7, 64):
            x = torch.randn(n, 8)
            same(fast(x), module(x))
    with torch.no_grad(), pytest.warns(FallbackWarning, match="not made for such sizes"):
        same(fast(torch.ones(65, 8)), module(torch.ones(65, 8)))


def test_files(fast: Optimized, tmp_path: Any) -> None:
    import onnxruntime

    module, x = fast.module, X
    fast.save(tmp_path / "faster.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "faster.onnx", providers=["CPUExecutionProvider"])
    (name,) = [i.name for i in session.get_inputs()]
    found = torch.from_numpy(session.run(None, {name: x.numpy()})[0])
    torch.testing.assert_close(found, module(x)["a"].detach(), rtol=1e-4, atol=1e-5)
    fast.report(tmp_path / "why.html")
    assert "Why it computes the same" in (tmp_path / "why.html").read_text()


def test_it_is_not_copied(fast: Optimized) -> None:
    with pytest.raises(TypeError, match="can't be copied or pickled"):
        copy.deepcopy(fast)


def test_wrong_arguments() -> None:
    x = torch.ones(4, 8)
    for call, error, message in (
        (
            lambda: tensat_dl.torch.optimize(joined(), (x,), meassure=False),
            TypeError,
            "did you mean `measure`",
        ),
        (lambda: tensat_dl.torch.optimize(joined(), x), TypeError, r"args is a tuple"),
        (lambda: tensat_dl.torch.optimize(joined(), (x,), rules="standard"), TypeError, "a list"),
        (lambda: tensat_dl.torch.optimize(joined(), (x,), device="h100"), ValueError, "the CPU here"),
        (lambda: tensat_dl.torch.optimize(joined(), ()), TypeError, "missing"),
        (lambda: tensat_dl.torch.optimize(joined(), (x,), frozen="no"), TypeError, "frozen is 'no'"),
        (lambda: tensat_dl.torch.optimize(joined(), (x,), sizes=3), TypeError, "sizes is 3"),
        (lambda: tensat_dl.torch.optimize(joined(), (x,), 3), TypeError, "kwargs is 3"),
        (lambda: tensat_dl.torch.optimize(joined(), (x,), rules=3), TypeError, "rules is 3"),
        (
            lambda: tensat_dl.torch.optimize(joined(), (x,), dynamic_shapes={"y": {0: "n"}}),
            ValueError,
            "dynamic_shapes are not those of the inputs",
        ),
        (lambda: tensat_dl.torch.optimize(print, ()), TypeError, "a module or an ExportedProgram"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_nothing_to_save_or_report(tmp_path: Any) -> None:
    with pytest.warns(FallbackWarning, match="draws at random"):
        fast = tensat_dl.torch.optimize(nn.Dropout(), (torch.ones(2),), **QUICK)
    for write in (fast.save, fast.report):
        with pytest.raises(NothingOptimized, match="draws at random"):
            write(tmp_path / "file")
    assert not list(tmp_path.iterdir())


class Weighted(nn.Module):
    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) - torch.sigmoid(by)


def test_calls_in_any_order_of_arguments_and_memory() -> None:
    """What a call leaves behind, such as where inputs and outputs were, is not taken for that of a later call."""
    fast, module = optimized(Weighted(), (X, -X)), Weighted()
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(2):  # the first calls of a form, and later ones
            for call in (
                lambda f, a, b: f(a, b),
                lambda f, a, b: f(a, by=b),
                lambda f, a, b: f(x=a, by=b),
                lambda f, a, b: f(by=b, x=a),
                lambda f, a, b: f(by=a, x=a),
            ):
                a, b = torch.randn(4, 8), torch.randn(4, 8)
                kept.append((call(fast, a, b), call(module, a, b)))
                same(call(fast, b, a.t().contiguous().t()), call(module, b, a))
        x = torch.randn(4, 8)
        for _ in range(3):  # the same memory, with other numbers in it
            same(fast(x, x), module(x, x))
            x += 1
    for found, expected in kept:  # results of earlier calls are still what they were
        same(found, expected)
    said = pytest.warns(FallbackWarning, match="input by is a float, and it was made for tensors")
    with said, pytest.raises(TypeError):
        fast(x, 0.5)


def test_threads_may_call_it_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    fast, module = optimized(Weighted(), (X, -X)), Weighted()
    inputs = [(torch.randn(4, 8), torch.randn(4, 8)) for _ in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: fast(*pair), inputs))
    for pair, y in zip(inputs, found, strict=True):
        same(y, module(*pair))


def test_threads_may_call_it_while_another_one_refreshes_it() -> None:
    """While it is traced, the module has other parameters, and calls of any module are traced, too."""
    from concurrent.futures import ThreadPoolExecutor

    module, done = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).eval(), False
    fast = optimized(module, (X,))

    def calls() -> int:
        with torch.inference_mode():
            expected, count = module(X), 0
            ready.release()
            while not done:
                same(fast(X), expected)
                count += 1
        return count

    ready = threading.Semaphore(0)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(calls)
        ready.acquire()
        try:
            for _ in range(3):
                fast.refresh()
        finally:
            done = True
        assert found.result() > 0


def test_memory_for_outputs_of_unknown_sizes_is_new_at_each_call() -> None:
    class Found(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.nonzero(x > 0), x * 2

    fast, x = optimized(Found(), (X,)), torch.eye(4, 8)
    first, _ = fast(x)
    fast(1 - x)
    same(fast(x.roll(1, 0)), Found()(x.roll(1, 0)))
    same(first, torch.nonzero(x > 0))


class SharesMemory(nn.Module):  # type: ignore[misc]
    """As CLIP does: scores, and the same scores transposed; and parts of a result."""

    def forward(self, x: torch.Tensor) -> Any:
        scores = torch.tanh(x @ x.t()) * 2
        y = torch.tanh(x) + 1
        return scores, {"transposed": scores.t()}, y, y[:, 1:3], torch.tanh(x) * 3


def test_outputs_share_memory_as_they_do_in_pytorch() -> None:
    module, x = SharesMemory(), torch.randn(4, 8)
    fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    assert (fast.called, fast.declined) == ("optimized", "")
    ours, theirs = fast(x + 1), module(x + 1)
    for found in (ours, theirs):
        found[1]["transposed"][0] = 7.0
        found[2][:, 2] = 8.0
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    again = fast(x + 1)  # in memory of its own
    assert not bool((again[0] == 7.0).any())


def test_outputs_that_share_memory_and_open_sizes() -> None:
    sizes = {"x": {0: torch.export.Dim("n", min=2, max=64)}}
    with pytest.warns(FallbackWarning, match="output 1 shares memory with output 0, and sizes are open"):
        tensat_dl.torch.optimize(SharesMemory(), (torch.randn(4, 8),), dynamic_shapes=sizes, **QUICK)
