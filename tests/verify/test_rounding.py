"""Which answers have a note that something jumps."""

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
