"""Element types other than f32."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning  # noqa: E402

from .models import QUICK  # noqa: E402


class Narrow(nn.Module):
    """Computes in f32 between inputs and outputs in other types."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.left, self.right, self.given = nn.Linear(8, 16), nn.Linear(8, 16), given

    def forward(self, x: torch.Tensor) -> Any:
        x = x.float()
        return torch.tanh(self.left(x)).to(self.given), self.right(x)


@pytest.mark.parametrize("given", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_inputs_and_outputs(given: Any) -> None:
    """NumPy has bf16 from another package, and PyTorch gives it none."""
    module, x = Narrow(given), torch.randn(4, 8, dtype=given)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
        assert fast.called == "optimized"
        for _ in range(2):
            x = torch.randn(4, 8, dtype=given)
            for found, expected in zip(fast(x), module(x), strict=True):
                assert found.dtype == expected.dtype
                torch.testing.assert_close(found.float(), expected.float(), atol=1e-2, rtol=1e-2)


class Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(x)
        return x.cumsum(0), x.amax(0, keepdim=True)


def test_outputs_that_the_exporter_gives_another_type() -> None:
    """Sums in f32 were written to the memory of an output in f16, and beyond it."""
    module = Sums().eval()
    fast = tensat_dl.torch.optimize(module, (torch.rand(3000).half(),), **QUICK)
    assert {"exported", "optimized"} & fast.latencies.keys(), fast.summary()
    x = torch.rand(3000).half()
    for found, expected in zip(fast(x), module(x), strict=True):
        assert found.dtype == torch.float16
        torch.testing.assert_close(found, expected, rtol=0.01, atol=0.0)


class Widened(nn.Module):
    """Scores in f32 of a module in f16, as decoders have them."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> Any:
        return (torch.tanh(self.left(x)) * self.right(x)).softmax(-1).float()


def test_outputs_are_as_exact_as_what_they_are_computed_of() -> None:
    torch.manual_seed(0)
    module, x = Widened().half(), torch.randn(16, 64, dtype=torch.float16)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
        assert fast.called == "optimized"
        torch.testing.assert_close(fast(x), module(x), atol=1e-3, rtol=1e-2)
