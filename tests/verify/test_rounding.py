"""Which answers have a note that something jumps, and what is done where rounding alone makes an answer another."""

from __future__ import annotations

import pytest

import tensat_dl

#: What a product by two numbers, which become one, is taken by.
JUMPING = {
    "floor": "floor(y)",
    "equal": "equal(y, z)",
    "greater_equal": "greater_equal(z, y)",
    "cast": "cast(y; to = i32)",
}


def notes(body: str, **options: bool) -> list[str]:
    lines = ("input x : f32[8]", "input z : f32[8]", "y = smul(smul(x, 0.3333333), 10.0)", body)
    text = "graph g {\n" + "\n".join(lines) + "\n}\n"
    found = tensat_dl.optimize(tensat_dl.load(text=text, rules=["standard"]), **options)  # type: ignore[arg-type]
    return [note for note in found.notes if "a number next to a step" in note]


@pytest.mark.parametrize("op", JUMPING)
def test_what_jumps_is_named(op: str) -> None:
    (note,) = notes(f"output {JUMPING[op]}")
    assert note.startswith(f"`{op}`: what it takes is rounded otherwise by smul-smul, so ")
    assert notes(f"output {JUMPING[op]}", reassociate=False) == []


@pytest.mark.parametrize("body", ["output relu(y)", "output cast(y; to = f64)", "output floor(z)\noutput y"])
def test_what_does_not_jump_is_not(body: str) -> None:
    assert notes(body) == []


def test_where_rounding_makes_the_answer_another_the_order_is_kept() -> None:
    """x + 1e8 loses what x has beyond eight digits, also in f64: what cancels is not the input."""
    body = "y = relu(relu(x))\noutput (y + 100000000.0) - 100000000.0"
    model = tensat_dl.load(text=f"graph g {{\ninput x : f32[8]\n{body}\n}}", rules=["standard"])
    found = tensat_dl.optimize(model)
    (note,) = (n for n in found.notes if "were left out" in n)
    assert note.startswith("equal in exact numbers, but rounded, output out0: relative error ")
    assert note.endswith("rules that change how results are rounded were left out")
    ops = [n.op for n in found.after.graph.nodes if n.op not in ("input", "weight", "fill")]
    assert ops == ["relu", "ewadd", "ewsub"]
    assert found.equivalence is not None
    assert found.equivalence.status == "equivalent"
