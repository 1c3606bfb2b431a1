"""Rules about maxima, comparisons and choices are proved in cases, and only where all cases are equal."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tensat_dl.lang.program import load_program
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.symbolic.proof import Unproved, prove_sizes

pytest.importorskip("z3")


def proofs(path: Path) -> list[bool]:
    """Whether each rule of a file is proved."""
    program = load_program(str(path))
    found = []
    for rule in program.rules:
        if rule.declared in program.own_rules:
            try:
                prove_sizes(rule, Inference(program.ops))
                found.append(True)
            except Unproved:
                found.append(False)
    return found


@pytest.mark.parametrize(
    "equation",
    [
        # limits
        "clip(clip(x; low = a, high = b); low = c, high = d) where c <= a, b <= d, a <= b"
        " => clip(x; low = a, high = b)",
        "relu(x) - relu(x - 6.0) => clip(x; low = 0.0, high = 6.0)",
        "x - clip(x; low = -0.5, high = 0.5) => relu(x - 0.5) + ewmin(x + 0.5, 0.0)",
        "clip(tanh(x); low = -1.0, high = 1.0) => tanh(x)",
        "ewmax(x, ewmin(exp(x) - 1.0, 0.0)) => elu(x)",
        "relu(tanh(x)) => tanh(relu(x))",
        # maxima and magnitudes
        "ewmax(x, y) + ewmin(x, y) => x + y",
        "ewmax(x, y) * ewmin(x, y) => x * y",
        "(x + y + abs(x - y)) * 0.5 => ewmax(x, y)",
        "abs(x) * abs(y) => abs(x * y)",
        "ewmax(ewmax(x, y), z) + ewmin(ewmin(x, y), z) + ewmin(ewmin(ewmax(x, y), ewmax(y, z)), ewmax(x, z))"
        " => x + y + z",
        # choices
        "select(greater(x, y), x, y) => ewmax(x, y)",
        "select(greater(x, 0.0), sqrt(x), 0.0) => sqrt(relu(x))",
        "relu(select(c, x, y)) => select(c, relu(x), relu(y))",
        "exp(select(c, x, y)) => select(c, exp(x), exp(y))",
        "logical_not(greater(x, y)) => greater_equal(y, x)",
        "greater(sigmoid(x), 0.5) => greater(x, 0.0)",
        # inside of sums
        "matmul((x + abs(x)) * 0.5, w) => matmul(relu(x), w)",
        "reduce_sum(select(greater(x, 0.0), x, 0.0); axis = 0) => reduce_sum(relu(x); axis = 0)",
        # logarithms
        "log(reduce_sum(exp(x - m); axis = 0)) + m where rank(m) == 0 => log(reduce_sum(exp(x); axis = 0))",
        "log(softmax(x; axis = 0)) where rank(x) == 1 => x - log(reduce_sum(exp(x); axis = 0))",
        "relu(x) + log(exp(neg(abs(x))) + 1.0) => softplus(x)",
    ],
)
def test_true_in_all_cases(tmp_path: Path, equation: str) -> None:
    path = tmp_path / "rules.tsr"
    path.write_text(f"rule r {{ {equation} }}", encoding="utf-8")
    assert proofs(path) == [True]


#: Points on all rays that matter: the terms below are linear between lines through 0 with small slopes.
X, Y = np.meshgrid(*[np.arange(-9, 10)] * 2)
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "ewadd": np.add,
    "ewsub": np.subtract,
    "ewmax": np.maximum,
    "ewmin": np.minimum,
}


def bigger(terms: dict[str, Array], choose: random.Random, count: int) -> dict[str, Array]:
    """Terms made of two or three of these, with their values."""
    out: dict[str, Array] = {}
    names = list(terms)
    for _ in range(count):
        a, b, c = (choose.choice(names) for _ in range(3))
        op = choose.choice(sorted(BINARY))
        out[f"{op}({a}, {b})"] = BINARY[op](terms[a], terms[b])
        out[f"relu({a})"] = np.maximum(terms[a], 0)
        out[f"abs({a})"] = np.abs(terms[a])
        chosen = np.where(terms[a] > 0, terms[b], terms[c])
        out[f"select(greater({a}, 0.0), {b}, {c})"] = chosen
    return out


def test_piecewise_linear_rules_are_proved_where_they_are_true(tmp_path: Path) -> None:
    """Of pairs of terms, those that agree everywhere are proved, and those that differ somewhere are not: such as
    differ at the fewest points are tried."""
    choose = random.Random(7)
    small = bigger({"x": X, "y": Y}, choose, 12)
    terms = {t: v for t, v in bigger(small, choose, 150).items() if {"x", "y"} <= set(re.findall(r"\w+", t))}
    pairs = [(a, b, int((terms[a] != terms[b]).sum())) for a, b in permutations(terms, 2)]
    equal = [p for p in pairs if p[2] == 0]
    near = sorted((p for p in pairs if p[2] > 0), key=lambda p: (p[2], p))
    tried = [*choose.sample(equal, 60), *near[:60]]
    path = tmp_path / "rules.tsr"
    path.write_text(
        "".join(f"rule r{i} {{ {a} => {b} }}\n" for i, (a, b, _) in enumerate(tried)), encoding="utf-8"
    )
    wrong = [(a, b, n) for (a, b, n), found in zip(tried, proofs(path), strict=True) if found != (n == 0)]
    assert not wrong
