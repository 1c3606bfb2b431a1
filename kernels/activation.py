"""Activations in Triton's language: elementwise functions, and the last steps of products and pools."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    # for large x, exp overflows to infinity, and 1 - 2 / inf is the right answer
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
    """torch's activation of x, which may overwrite x: no other code may read x."""
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
