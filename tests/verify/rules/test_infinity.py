"""Rules with the literal `inf`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.lang.program import load_program
from tensat_dl.verify.rules.verify import verify_rules

FILL = "fill(; value = inf, dtype = dtype(x), shape = shape(x))"


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ("ewmin(ewmax(x, -inf), inf) => x", "proved"),
        ("clip(x; low = -inf, high = 0.0) => ewmin(x, 0.0)", "proved"),
        (f"ewmax(x, inf) => {FILL}", "proved"),
        ("ewadd(x, inf) => ewsub(x, -inf)", "tested"),  # nothing is proved of arithmetic with infinity
        ("ewmin(ewmax(x, -inf), inf) => neg(x)", "refuted"),
        ("ewmax(x, inf) => x", "refuted"),
        ("ewadd(x, inf) => x", "refuted"),
        (f"ewmul(x, inf) => {FILL}", "refuted"),
    ],
)
def test_infinity_is_beyond_all_numbers(rule: str, status: str, tmp_path: Path) -> None:
    source, target = rule.split(" => ")
    path = tmp_path / "r.tsr"
    path.write_text(f"rule r {{ {source} where is_float(dtype(x)) => {target} }}\n", encoding="utf-8")
    program = load_program(str(path))
    stated = [r for r in program.rules if r.name == "r"]
    assert [v.status for v in verify_rules(stated, program.ops, proofs=True)] == [status]
