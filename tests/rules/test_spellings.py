"""Activations and norms are recognised by `standard` in the spellings of exporters and of people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import tensat_dl

pytestmark = pytest.mark.sampled(4)


def orders(x: str, op: str, y: str) -> list[str]:
    return [f"({x} {op} {y})", f"({y} {op} {x})"]


def gelus() -> Iterator[str]:
    arguments = ("x / 1.4142135623730951", "x / 1.4142135", "0.70710678 * x", "x / sqrt(2.0)")
    sums = [s for a in arguments for s in orders("1.0", "+", f"erf({a})")]
    for s in sums[:3] + sums[-1:]:
        yield from (f"x * 0.5 * {s}", f"{s} * x / 2.0", f"x * (0.5 * {s})")


def tanh_gelus() -> Iterator[str]:
    for cube, c in product(("x * x * x", "power(x; exponent = 3.0)"), ("0.7978845608", "0.79788456")):
        for inner in orders("x", "+", f"0.044715 * ({cube})"):
            yield f"0.5 * x * (1.0 + tanh({c} * {inner}))"
    yield "(tanh(sqrt(2.0 / 3.141592653589793) * (x + 0.044715 * (x * (x * x)))) + 1.0) * (x / 2.0)"


SIGMOIDS = ["1.0 / (1.0 + exp(neg(x)))", "1.0 / (exp(0.0 - x) + 1.0)", "1.0 / (1.0 + exp(x * -1.0))"]
RELU6 = [
    "ewmin(ewmax(x + 3.0, 0.0), 6.0)",
    "ewmin(6.0, relu(3.0 + x))",
    "ewmax(ewmin(x + 3.0, 6.0), 0.0)",
]
C = "(x - reduce_mean(x; axis = 1))"
VARIANCE = f"reduce_mean({C} * {C}; axis = 1)"
SPELLINGS = {
    "gelu": list(gelus()),
    "gelu_tanh": list(tanh_gelus()),
    "sigmoid": SIGMOIDS,
    "silu": [*orders("x", "*", "sigmoid(x)"), *(f"x * ({s})" for s in SIGMOIDS), "x / (1.0 + exp(0.0 - x))"],
    "softsign": ["x / (1.0 + abs(x))", "x / (abs(x) + 1.0)", "x * (1.0 / (1.0 + abs(x)))"],
    "softplus": ["log(1.0 + exp(x))", "log(exp(x) + 1.0)"],
    "mish": ["x * tanh(log(1.0 + exp(x)))", "tanh(softplus(x)) * x"],
    "hardsigmoid": [f"{r} / 6.0" for r in RELU6] + ["clip(x * 0.16666667 + 0.5; low = 0.0, high = 1.0)"],
    "hardswish": [f"x * {r} / 6.0" for r in RELU6] + [f"({RELU6[0]} / 6.0) * x", f"x / 6.0 * {RELU6[1]}"],
    "softmax": ["exp(x) / reduce_sum(exp(x); axis = 1)", "exp(x) * (1.0 / reduce_sum(exp(x); axis = 1))"],
    "layernorm": [
        f"{C} / sqrt({VARIANCE} + 0.00001) * g + b",
        f"b + g * ({C} * rsqrt(0.00001 + {VARIANCE}))",
        f"g * {C} / sqrt(reduce_mean(power({C}; exponent = 2.0); axis = 1) + 0.00001) + b",
        f"{C} * (g * power({VARIANCE} + 0.00001; exponent = -0.5)) + b",
        f"(x - reduce_sum(x; axis = 1) / 32.0) / sqrt({VARIANCE} + 0.00001) * g + b",
    ],
    "rmsnorm": [
        "x / sqrt(reduce_mean(x * x; axis = 1) + 0.00001) * g",
        "g * (x * rsqrt(reduce_mean(power(x; exponent = 2.0); axis = 1) + 0.00001))",
        "g * x * (1.0 / sqrt(reduce_mean(x * x; axis = 1) + 0.00001))",
    ],
}


@pytest.mark.parametrize("op", SPELLINGS)
def test_each_spelling_becomes_one_operator(op: str, tmp_path: Path) -> None:
    """All spellings stand in one graph, each of an input and of weights of its own."""
    lines = []
    for i, text in enumerate(SPELLINGS[op]):
        names = sorted(set(re.findall(r"\b[gbx]\b", text)))
        lines += [f"input x{i} : f32[8, 32]"] + [f"weight {n}{i} : f32[32]" for n in names if n != "x"]
        lines.append("output " + re.sub(r"\b([gbx])\b", rf"\g<1>{i}", text))
    path = tmp_path / "spellings.tsr"
    path.write_text("graph g {\n" + "\n".join(lines) + "\n}\n")
    model = tensat_dl.load(str(path), rules=["standard"])
    graph = tensat_dl.optimize(model, max_nodes=100_000).after.graph
    known = graph.weights_only()
    found = {
        text: [graph.nodes[n].op, *(graph.nodes[i].op for i in graph.nodes[n].inputs if not known[i])]
        for text, (_, n) in zip(SPELLINGS[op], graph.outputs, strict=True)
    }
    assert found == {text: [op, "input"] for text in SPELLINGS[op]}
