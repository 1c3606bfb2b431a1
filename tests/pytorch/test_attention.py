"""Attention whose keys may all be masked, where PyTorch computes 0, and attention of other than four dimensions."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning  # noqa: E402

from .models import QUICK  # noqa: E402


class Attention(nn.Module):
    def __init__(self, mask: torch.Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        y, mask = torch.tanh(x), self.mask if mask is None else mask
        return nn.functional.scaled_dot_product_attention(y, y * 2, x, mask)


def causal(padded: int) -> torch.Tensor:
    """A mask of five places, the first of which are padded: they see nothing."""
    return torch.ones(5, 5, dtype=torch.bool).tril() & (torch.arange(5) >= padded)


def floats(mask: torch.Tensor, masked: float) -> torch.Tensor:
    return torch.where(mask, 0.25, masked)


@pytest.mark.parametrize(
    "masked", [None, -torch.inf, torch.finfo(torch.float32).min], ids=["bool", "inf", "min"]
)
@pytest.mark.parametrize("padded", [0, 2])
def test_places_that_see_nothing(masked: float | None, padded: int) -> None:
    """Whether the example is padded, or other inputs are."""
    module = Attention().eval()
    masks = [causal(n)[None, None].expand(2, 1, 5, 5) for n in (padded, 2 - padded, 5)]
    given = [(torch.randn(2, 3, 5, 4), m if masked is None else floats(m, masked)) for m in masks]
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, given[0], **QUICK)
        for inputs in given:
            torch.testing.assert_close(fast(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)
    assert fast.called != "module"


@pytest.mark.parametrize("dims", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "mask",
    [None, causal(0), causal(2), floats(causal(0), -torch.inf)],
    ids=["none", "causal", "padded", "floats"],
)
def test_dimensions_and_masks_that_are_known(dims: int, mask: torch.Tensor | None) -> None:
    module, shape = Attention(mask).eval(), (2, 2, 3, 5, 4)[5 - dims :]
    fast = tensat_dl.torch.optimize(module, (torch.randn(shape),), **QUICK)
    assert not fast.declined
    ops = {n.op_type for n in fast._prepared.models["exported"][""].graph}
    assert "Softmax" in ops
    assert not ops & {"IsNaN", "Where"}
    x = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)


def test_sizes_are_open() -> None:
    n = torch.export.Dim("n", min=2, max=64)
    module, shapes = Attention().eval(), {"x": {2: n}, "mask": {2: n, 3: n}}

    def call(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(2, 3, size, 4), (torch.rand(2, 1, size, size) > 0.5) & (torch.rand(size, 1) > 0.3)

    fast = tensat_dl.torch.optimize(module, call(5), dynamic_shapes=shapes, **QUICK)
    assert fast.called != "module"
    for size in (3, 9):
        given = call(size)
        torch.testing.assert_close(fast(*given), module(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_types(dtype: torch.dtype) -> None:
    module, given = Attention().eval(), (torch.randn(2, 3, 5, 4).to(dtype), causal(2))
    fast = tensat_dl.torch.optimize(module, given, **QUICK)
    assert not fast.declined
    tolerance = 1e-9 if dtype == torch.float64 else 1e-2
    torch.testing.assert_close(fast(*given), module(*given), rtol=tolerance, atol=tolerance)


def test_a_mask_of_keys_alone() -> None:
    """It has one dimension."""
    module, x = Attention().eval(), torch.randn(5, 4)
    masks = torch.tensor([[True, False, True, True, False], [False] * 5])
    fast = tensat_dl.torch.optimize(module, (x, masks[0]), **QUICK)
    assert not fast.declined
    for mask in masks:
        torch.testing.assert_close(fast(x, mask), module(x, mask), rtol=1e-4, atol=1e-5)


class OfThree(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, mask)


@pytest.mark.parametrize(
    ("query", "keys", "mask"),
    [
        ((2, 3, 5, 4), (2, 2, 3, 6, 4), None),
        ((3, 5, 4), (3, 6, 4), (1, 1, 5, 6)),
        ((2, 3, 5, 4), (2, 3, 0, 4), (5, 0)),
    ],
    ids=["other dimensions", "a mask of more dimensions", "no keys"],
)
def test_what_is_left_to_pytorch(
    query: tuple[int, ...], keys: tuple[int, ...], mask: tuple[int, ...] | None
) -> None:
    given = (torch.randn(query), torch.randn(keys), torch.randn(keys))
    given += () if mask is None else (torch.rand(mask) > 0.5,)
    module = OfThree().eval()
    with pytest.warns(FallbackWarning):
        fast = tensat_dl.torch.optimize(module, given, **QUICK)
    torch.testing.assert_close(fast(*given), module(*given))
