"""Activations, gates and norms are recognised by `standard` in the spellings of exporters and of people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import tensat_dl
from tensat_dl.run.result import Result

pytestmark = pytest.mark.sampled(4)


def orders(x: str, op: str, y: str) -> list[str]:
    return [f"({x} {op} {y})", f"({y} {op} {x})"]


def gelus() -> Iterator[str]:
    arguments = ("x / 1.4142135623730951", "x / 1.4142135", "0.70710678 * x", "x / sqrt(2.0)")
    sums = [s for a in arguments for s in orders("1.0", "+", f"erf({a})")]
    for s in sums[:3] + sums[-1:]:
        yield from (f"x * 0.5 * {s}", f"{s} * x / 2.0", f"x * (0.5 * {s})")
    for a in ("x / 1.41421356237", "x * 0.7071067811865475"):
        yield from (
            f"0.5 * x * (1.0 + erf({a}))",
            f"0.5 * x + 0.5 * x * erf({a})",
            f"erf({a}) * (x / 2.0) + x * 0.5",
            f"x * (0.5 + 0.5 * erf({a}))",
        )


def tanh_gelus() -> Iterator[str]:
    for cube, c in product(
        ("x * x * x", "power(x; exponent = 3.0)"), ("0.7978845608028", "0.79788456", "0.797885")
    ):
        for inner in orders("x", "+", f"0.044715 * ({cube})"):
            yield f"0.5 * x * (1.0 + tanh({c} * {inner}))"
    yield "0.5 * x * (1.0 + tanh(0.7978845608 * x * (1.0 + 0.044715 * x * x)))"
    yield "x * sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))"
    yield "(tanh(sqrt(2.0 / 3.141592653589793) * (x + 0.044715 * (x * (x * x)))) + 1.0) * (x / 2.0)"


SIGMOIDS = [
    "1.0 / (1.0 + exp(-x))",
    "1.0 / (exp(0.0 - x) + 1.0)",
    "1.0 / (1.0 + exp(x * -1.0))",
    "power(1.0 + exp(-x); exponent = -1.0)",
    "exp(x) / (exp(x) + 1.0)",
    "0.5 * (1.0 + tanh(0.5 * x))",
    "tanh(x / 2.0) * 0.5 + 0.5",
]
RELU6 = [
    "ewmin(ewmax(x + 3.0, 0.0), 6.0)",
    "ewmin(6.0, relu(3.0 + x))",
    "ewmax(ewmin(x + 3.0, 6.0), 0.0)",
]
C = "(x - reduce_mean(x; axis = 1))"
VARIANCE = f"reduce_mean({C} * {C}; axis = 1)"
MOMENTS = "(reduce_mean(x * x; axis = 1) - reduce_mean(x; axis = 1) * reduce_mean(x; axis = 1))"
ROOT = f"rsqrt({VARIANCE} + 0.00001)"
SPELLINGS = {
    "relu": [
        *(f"select({c}, x, 0.0)" for c in ("greater(x, 0.0)", "greater_equal(x, 0.0)")),
        *(f"select({c}, 0.0, x)" for c in ("greater(0.0, x)", "greater_equal(0.0, x)")),
        *(f"{s} * 0.5" for s in orders("x", "+", "abs(x)")),
        "(abs(x) + x) / 2.0",
    ],
    "leakyrelu": [
        "ewmax(x, x * 0.01)",
        "ewmax(0.2 * x, x)",
        "select(greater(x, 0.0), x, x * 0.01)",
        "select(greater(0.0, x), 0.1 * x, x)",
        "relu(x) - 0.01 * relu(neg(x))",
        "ewmin(0.0, x) * 0.25 + ewmax(0.0, x)",
    ],
    "prelu": ["select(greater_equal(x, 0.0), x, g * x)", "relu(x) - g * relu(0.0 - x)"],
    "elu": [
        "select(greater(x, 0.0), x, exp(x) - 1.0)",
        "select(greater(0.0, x), exp(x) - 1.0, x)",
        "select(greater(x, 0.0), x, 0.7 * (exp(x) - 1.0))",
        "relu(x) + ewmin(0.0, exp(x) - 1.0)",
    ],
    "tanh": [
        "2.0 * sigmoid(2.0 * x) - 1.0",
        "2.0 / (1.0 + exp(x * -2.0)) - 1.0",
        "1.0 - 2.0 / (exp(2.0 * x) + 1.0)",
        "(exp(x) - exp(neg(x))) / (exp(neg(x)) + exp(x))",
        "(exp(2.0 * x) - 1.0) / (exp(2.0 * x) + 1.0)",
    ],
    "gelu": list(gelus()),
    "gelu_tanh": list(tanh_gelus()),
    "sigmoid": SIGMOIDS,
    "silu": [
        *orders("x", "*", "sigmoid(x)"),
        *(f"x * ({s})" for s in SIGMOIDS),
        "x / (1.0 + exp(0.0 - x))",
        "(x * 0.5) * (1.0 + tanh(x * 0.5))",
    ],
    "softsign": ["x / (1.0 + abs(x))", "x / (abs(x) + 1.0)", "x * (1.0 / (1.0 + abs(x)))"],
    "softplus": [
        "log(1.0 + exp(x))",
        "log(exp(x) + 1.0)",
        "relu(x) + log(1.0 + exp(-abs(x)))",
        "log(exp(0.0 - abs(x)) + 1.0) + ewmax(x, 0.0)",
        "-log(sigmoid(-x))",
        "0.0 - log(sigmoid(0.0 - x))",
    ],
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
        f"{C} / sqrt({MOMENTS} + 0.00001) * g + b",
        f"x * ({ROOT} * g) + (b - reduce_mean(x; axis = 1) * ({ROOT} * g))",
        f"(x - reduce_sum(x; axis = 1) * 0.03125) * {ROOT} * g + b",
        f"b - (reduce_mean(x; axis = 1) - x) * {ROOT} * g",
        f"{C} / sqrt(reduce_mean(abs({C}) * abs({C}); axis = 1) + 0.00001) * g + b",
        f"{C} / sqrt({VARIANCE}) * g + b",
    ],
    "rmsnorm": [
        "x / sqrt(reduce_mean(x * x; axis = 1) + 0.00001) * g",
        "g * (x * rsqrt(reduce_mean(power(x; exponent = 2.0); axis = 1) + 0.00001))",
        "g * x * (1.0 / sqrt(reduce_mean(x * x; axis = 1) + 0.00001))",
        "x / sqrt(reduce_mean(x * x; axis = 1)) * g",
        "x / sqrt(reduce_sum(x * x; axis = 1))",
        "rsqrt(reduce_sum(power(x; exponent = 2.0); axis = -1)) * x",
        "x / sqrt(reduce_sum(x * x; axis = 1)) * 8.0",
    ],
}

GATE = "input x : f32[8, 32] input y : f32[8, 32] input t : f32[8, 32]"
IMAGE = "input x : f32[2, 8, 6, 6] " + " ".join(f"weight {w} : f32[8, 1, 1]" for w in "gbmv")
INPUTS = IMAGE.replace("weight", "input")
ROWS = {w: f"reshape({w}; shape = [8])" for w in "gbmv"}
IN_MEAN, IN_SQUARES = (
    f"reduce_mean(reduce_mean({e}; axis = 2); axis = 3)" for e in ("x", "(x - u) * (x - u)")
)
#: By hand and in other spellings, each with the declarations of its tensors.
BY_HAND = {
    "gate": (
        GATE,
        "output x + t * (y - x)",
        [f"output {s}" for s in ("t * y + (1.0 - t) * x", "x * (1.0 - t) + y * t", "t * y + x - t * x")],
    ),
    "silu-gate": (
        GATE,
        "output silu(x) * y",
        [
            f"output {s}"
            for s in ("y * x * sigmoid(x)", "x * (y * sigmoid(x))", "y * x / (1.0 + exp(neg(x)))")
        ],
    ),
    "gelu-gate": (GATE, "output gelu(x) * y", ["output y * x * 0.5 * (1.0 + erf(x / 1.4142135))"]),
    "gelu-tanh-gate": (
        GATE,
        "output gelu_tanh(x) * y",
        ["output y * x * 0.5 * (1.0 + tanh(0.79788456 * (x + 0.044715 * x * x * x)))"],
    ),
    "batchnorm": (
        IMAGE,
        f"output batchnorm(x, {', '.join(ROWS.values())})",
        ["output (x - m) / sqrt(v + 0.00001) * g + b", "output x * g + b", "output b + g * (x - m)"],
    ),
    "batchnorm-of-inputs": (
        INPUTS,
        f"output batchnorm(x, {', '.join(ROWS.values())})",
        ["output (x - m) / sqrt(v + 0.00001) * g + b"],
    ),
    "instancenorm": (
        IMAGE,
        f"output instancenorm(x, {ROWS['g']}, {ROWS['b']})",
        [f"u = {IN_MEAN}\n output (x - u) / sqrt({IN_SQUARES} + 0.00001) * g + b"],
    ),
    "layernorm-of-channels": (
        "input x : f32[2, 8, 6, 6]",
        """last = transpose(x; perm = [0, 2, 3, 1])
  one = fill(; value = 1.0, dtype = f32, shape = [8])
  zero = fill(; value = 0.0, dtype = f32, shape = [8])
  output transpose(layernorm(last, one, zero); perm = [0, 3, 1, 2])""",
        [f"output {C} / sqrt({VARIANCE} + 0.00001)"],
    ),
    **{
        f"{f.partition('(')[0]}-of-parts": (
            "input x : f32[8, 32] input y : f32[4, 32] weight w : f32[32, 16]"
            " weight g : f32[16] weight b : f32[16]",
            f"(p, q) = split({f.format('concat(x, y; axis = 0) @ w')}; axis = 0, sizes = [8, 4])\n"
            "  output p, q",
            [f"output {f.format('x @ w')}, {f.format('y @ w')}"],
        )
        for f in ("softmax({}; axis = 1)", "silu({})", "exp({})", "layernorm({}, g, b)", "rmsnorm({}, g)")
    },
    "mean-of-channels-last": (
        "input x : f32[1, 8, 6, 6]",
        "output reshape(poolavg(x; kernel = 6); shape = [1, 8])",
        [
            f"""y = transpose(x; perm = [0, 2, 3, 1])
  output reshape(reduce_mean(reduce_mean(y; axis = {i}); axis = {3 - i}); shape = [1, 8])"""
            for i in (1, 2)
        ],
    ),
}


def of_graph(declared: str, body: str, path: Path) -> Result:
    statements = re.sub(r" (?=(?:input|weight) )", "\n  ", declared)
    path.write_text(f"graph g {{\n  {statements}\n  {body}\n}}\n")
    return tensat_dl.optimize(tensat_dl.load(str(path), rules=["standard"]))


@pytest.mark.parametrize("name", BY_HAND)
def test_each_spelling_costs_what_is_written_by_hand(name: str, tmp_path: Path) -> None:
    declared, by_hand, spellings = BY_HAND[name]
    best = of_graph(declared, by_hand, tmp_path / "hand.tsr").before.total
    for text in spellings:
        found = of_graph(declared, text, tmp_path / "spelling.tsr")
        assert found.stop == "saturated"
        assert found.equivalence is not None
        assert found.equivalence.status == "equivalent"
        assert found.after.total <= best * (1 + 1e-9), text


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
