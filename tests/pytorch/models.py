"""Tiny modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

#: Measuring operators takes seconds, and decides nothing here.
QUICK = {"measure": False}


class Joined(nn.Module):
    """Two products of one input, which become one."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(8, 16)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> Any:
        x = self.dropout(x) + 1
        return {
            "a": torch.tanh(self.left(x)) * scale * self.factor,
            "rest": [self.right(x), None, 3],
            "same": x,
        }


def joined() -> Joined:
    torch.manual_seed(0)
    return Joined().eval()


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


torch.export.register_dataclass(Pair)
