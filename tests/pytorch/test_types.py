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
        self.linear, self.given = nn.Linear(8, 4), given

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(torch.relu(torch.relu(x.float())))
        return y.to(self.given), y


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
                torch.testing.assert_close(found, expected)
