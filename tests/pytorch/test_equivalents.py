"""Operators that the exporter refuses or gets wrong, though it takes others that compute the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning  # noqa: E402

from .models import QUICK  # noqa: E402


class Applies(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(torch._is_all_true(x > -100).item())
    return torch.tanh(x) * 2


MASK, FLOATS = torch.tensor([[1, 1, 0], [1, 0, 0]]), torch.tensor([[-2.0, 0.25, 1.5]])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda mask: (1.0 - mask) * -1000, MASK),
        (lambda x: x.clamp(1e-6, 1), FLOATS),
        (lambda x: torch.clip(x, -1, 0.5), FLOATS),
        (lambda i: i.clamp(0.5, 3), MASK),
        (checked, FLOATS),
        (lambda x: torch.masked_select(x, x > 0) * 2, FLOATS),
        (lambda x: torch.masked_select(x, torch.tensor([[True], [False], [True]])) + 1, FLOATS),
    ],
    ids=[
        "1.0 - x",
        "clamp",
        "clip",
        "clamp of integers",
        "assertion",
        "masked_select",
        "wider masked_select",
    ],
)
def test_it_computes_the_same(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    module = Applies(function).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
        for given in (x, x * 3, x.flip(1)):
            torch.testing.assert_close(fast(given), module(given))
    assert fast.called != "module"
    assert fast._prepared.models  # as a whole


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_scattered_infinities(reduce: str) -> None:
    class Scatters(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return torch.ones(3, 4).scatter_reduce(0, i, x, reduce, include_self=False) + 1

    i = torch.tensor([[0, 1, 0, 2], [0, 1, 2, 2]])
    x = torch.randn(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(Scatters(), (x, i), **QUICK)
        for given in (x, torch.full((2, 4), -float("inf")), torch.full((2, 4), float("inf"))):
            torch.testing.assert_close(fast(given, i), Scatters()(given, i))
    assert fast.called != "module"


def test_parts_of_an_open_size() -> None:
    module = Applies(lambda x: torch.cat([torch.relu(p) * (i + 1) for i, p in enumerate(x.chunk(3))])).eval()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, (torch.randn(12, 8),), dynamic_shapes=shapes, **QUICK)
        for rows in (9, 10, 11, 12, 40):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(fast(x), module(x))
    assert fast.called != "module"
