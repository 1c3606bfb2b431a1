"""Conditions that compute with float attributes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.lang.elaborate import elaborate_test
from tensat_dl.lang.program import load_program
from tensat_dl.verify.rule_tests import run_test
from tensat_dl.verify.rules.examine import Examiner

FILL = "fill(; value = v, dtype = t, shape = s)"


def status(body: str, tmp_path: Path) -> str:
    path = tmp_path / "r.tsr"
    path.write_text(f"rule r {{ {body} }}", encoding="utf-8")
    found = load_program(str(path))
    (rule,) = (r for r in found.rules if r.declared in found.own_rules)
    return Examiner(found.ops).verdict(rule).status


@pytest.mark.parametrize(
    "condition",
    [
        "v / 100.0 > 13.0",
        "v * v > 13000.0, v > 0.0",
        "1.0 / v > 1300.0",
        "v - 1000.0 > 900.0 - v",
        "-v < -1300.0",
        "v == 3",  # a float like 3.0
    ],
)
def test_numbers_are_found_that_few_conditions_leave(condition: str, tmp_path: Path) -> None:
    assert status(f"relu({FILL}) where {condition} => {FILL}", tmp_path) in ("proved", "tested")


def test_a_false_rule_under_such_a_condition(tmp_path: Path) -> None:
    assert status(f"abs({FILL}) where v / 100.0 < -13.0 => {FILL}", tmp_path) == "refuted"


def test_such_conditions_decide_where_a_rule_applies(tmp_path: Path) -> None:
    path = tmp_path / "r.tsr"
    path.write_text(
        """
rule mirror {
  clip(neg(x); low = a, high = b) where a == -b, b >= 0.0 => neg(clip(x; low = a, high = b))
}
test mirror {
  input x : f32[4]
  output clip(neg(x); low = -2.0, high = 2.0)
  =>
  input x : f32[4]
  output neg(clip(x; low = -2.0, high = 2.0))
}
test mirror {
  input x : f32[4]
  output clip(neg(x); low = -2.0, high = 3.0)
  => unchanged
}
rule minus { neg(fill(; value = v, dtype = t, shape = s)) => fill(; value = -v, dtype = t, shape = s) }
test minus {
  output neg(fill(; value = 3.0, dtype = f32, shape = [2]))
  =>
  output fill(; value = -3.0, dtype = f32, shape = [2])
}
""",
        encoding="utf-8",
    )
    found = load_program(str(path))
    tests = (elaborate_test(t, found.ops, found.blocks) for t in found.tests)
    assert [run_test(t, found) for t in tests] == [""] * 3
