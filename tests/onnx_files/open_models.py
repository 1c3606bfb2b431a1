"""Small models with open dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.helper import make_node

from .models import model, random, tensor, value

#: The width of attention, its heads, and the width of each.
WIDTH, HEADS, EACH = 64, 4, 16


def attention(batch: int | str = "batch", seq: int | str = "seq") -> Any:
    """Self-attention with a residual, as exporters write it: shapes are computed."""
    nodes = [
        make_node("Shape", ["x"], ["shape"]),
        make_node("Gather", ["shape", "zero"], ["batch_size"]),
        make_node("Gather", ["shape", "one"], ["length"]),
        make_node("Concat", ["batch_size", "length", "heads"], ["apart"], axis=0),
        make_node("Concat", ["batch_size", "length", "width"], ["whole"], axis=0),
    ]
    for name in "qkv":
        nodes += [
            make_node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            make_node("Add", [f"{name}0", f"b{name}"], [f"{name}1"]),
            make_node("Reshape", [f"{name}1", "apart"], [f"{name}2"]),
            make_node("Transpose", [f"{name}2"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        make_node("MatMul", ["q", "k"], ["scores"]),
        make_node("Mul", ["scores", "scale"], ["scaled"]),
        make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        make_node("MatMul", ["weights", "v"], ["mixed"]),
        make_node("Transpose", ["mixed"], ["together"], perm=[0, 2, 1, 3]),
        make_node("Reshape", ["together", "whole"], ["flat"]),
        make_node("MatMul", ["flat", "wo"], ["out"]),
        make_node("Add", ["out", "x"], ["y"]),
    ]
    weights = [
        *(random(f"w{name}", WIDTH, WIDTH) for name in "qkvo"),
        *(random(f"b{name}", WIDTH) for name in "qkv"),
        *(tensor(name, [n], np.int64) for name, n in (("zero", 0), ("one", 1), ("width", WIDTH))),
        tensor("heads", [HEADS, EACH], np.int64),
        tensor("scale", 0.25),
    ]
    return model(nodes, [value("x", batch, seq, WIDTH)], [value("y", batch, seq, WIDTH)], weights)
