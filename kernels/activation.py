"""Activations: what a product or a pool ends in, and elementwise functions in Triton's language."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    # exp overflows to infinity on the right, which is the right answer: 1 - 2 / inf
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def gelu(x):
    return x * 0.5 * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def relu(x):
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def activate(x, ACT: tl.constexpr):
    if ACT == "relu":
        x = relu(x)
    elif ACT == "sigmoid":
        x = sigmoid(x)
    elif ACT == "tanh":
        x = tanh(x)
    elif ACT == "gelu":
        x = gelu(x)
    return x


def in_place(x: torch.Tensor, act: str) -> torch.Tensor:
    """The activation of a tensor that nobody else reads, by torch."""
    match act:
        case "relu":
            return x.relu_()
        case "sigmoid":
            return x.sigmoid_()
        case "tanh":
            return x.tanh_()
        case "gelu":
            return torch.nn.functional.gelu(x)
    return x
