"""The tests that stand beside rules: what passes, and what a failure says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl import resources
from tensat_dl.lang.elaborate import elaborate_test
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rule_tests import run_test

pytestmark = pytest.mark.sampled(5)

RULE = "rule relu-relu { relu(relu(x)) => relu(x) }\n"
INPUT = "  input x : f32[2, 3]\n"


def outcomes(program: Program) -> list[str]:
    tests = (elaborate_test(test, program.ops, program.blocks) for test in program.tests)
    return [run_test(test, program) for test in tests]


def outcome(program: Program) -> str:
    (only,) = outcomes(program)
    return only


def failure(before: str, after: str, tmp_path: Path) -> str:
    path = tmp_path / "rule.tsr"
    path.write_text(f"{RULE}test relu-relu {{\n{INPUT}{before}\n  => {after}\n}}\n")
    program = load_program(str(path))
    return outcome(program)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("  output relu(relu(x))", f"{INPUT}  output relu(x)", ""),
        ("  output relu(relu(relu(x)))", f"{INPUT}  output relu(x)", ""),
        ("  output relu(tanh(x))", "unchanged", ""),
        (
            "  output relu(relu(x))",
            "unchanged",
            "fired (two tensors were found equal), but the graph should stay",
        ),
        ("  output relu(relu(x))", f"{INPUT}  output x", "built, but not found equal"),
        ("  output relu(relu(x))", f"{INPUT}  output tanh(x)", "the rule did not build its tanh"),
        ("  output relu(tanh(x))", f"{INPUT}  output relu(tanh(x))", "both graphs are the same"),
        (
            "  output relu(relu(x))",
            "input x : f32[3, 2]\n  output relu(x)",
            "`x` is an input of type f32[2, 3] before the arrow and an input of type f32[3, 2] after it",
        ),
        ("  output relu(relu(x)), x", f"{INPUT}  output relu(x)", "2 outputs before the arrow, 1 after"),
    ],
)
def test_verdict(before: str, after: str, message: str, tmp_path: Path) -> None:
    found = failure(before, after, tmp_path)
    assert message in found
    assert bool(message) == bool(found)


def test_a_false_rule_fails_a_test_that_states_it(tmp_path: Path) -> None:
    path = tmp_path / "rule.tsr"
    inputs = "  input x : f32[4, 8]\n  input a : f32[8, 2]\n  input b : f32[8, 2]\n"
    path.write_text(
        "rule wrong { matmul(x, a) - matmul(x, b) => matmul(x, b - a) }\n"
        f"test wrong {{\n{inputs}  output x @ a - x @ b\n  =>\n{inputs}  output x @ (b - a)\n}}\n"
    )
    program = load_program(str(path))
    assert "the rule is false" in outcome(program)


def test_what_fired_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "rule.tsr"
    path.write_text(
        f"rule more {{ tanh(x) => neg(tanh(neg(x))) }}\ntest more {{\n{INPUT}  output tanh(x)\n  => unchanged\n}}\n"
    )
    found = outcome(load_program(str(path)))
    assert "the rule fired (3 new e-nodes), but the graph should stay unchanged" in found
    path.write_text(
        f"rule one {{ relu(x) => ewmax(x, x) }}\ntest one {{\n{INPUT}  output relu(x)\n  => unchanged\n}}\n"
    )
    assert "the rule fired (1 new e-node), but" in outcome(load_program(str(path)))


@pytest.mark.parametrize("pack", sorted(p.stem for p in resources.rules().glob("*.tsr")))
def test_the_library_passes_its_own_tests(pack: str) -> None:
    program = load_program(str(resources.rules() / f"{pack}.tsr"))
    assert [failure for failure in outcomes(program) if failure] == []


POSITIVE = "rule pos { relu(ewmul(x, c)) where value(c) > 0.0 => ewmul(relu(x), c) }\n"
BETWEEN = "rule between { ewmul(ewadd(x, d), c) where value(d) <= value(c), value(c) < 4 => exp(x) }\n"


@pytest.mark.parametrize(
    ("rule", "before", "applies"),
    [
        (POSITIVE, "relu(ewmul(x, 2.0))", True),
        (POSITIVE, "relu(ewmul(x, 0.5))", True),
        (POSITIVE, "relu(ewmul(x, 0.0))", False),
        (POSITIVE, "relu(ewmul(x, -0.5))", False),
        (POSITIVE, "relu(ewmul(x, x))", False),
        (BETWEEN, "ewmul(ewadd(x, 2.0), 3.0)", True),
        (BETWEEN, "ewmul(ewadd(x, 3.0), 3.0)", True),
        (BETWEEN, "ewmul(ewadd(x, 3.5), 3.0)", False),
        (BETWEEN, "ewmul(ewadd(x, 2.0), 4.0)", False),
        (BETWEEN, "ewmul(ewadd(x, 2.0), x)", False),
    ],
)
def test_known_values_are_compared(rule: str, before: str, applies: bool, tmp_path: Path) -> None:
    path = tmp_path / "rule.tsr"
    name = rule.split()[1]
    path.write_text(f"{rule}test {name} {{\n{INPUT}  output {before}\n  => unchanged\n}}\n")
    program = load_program(str(path))
    assert ("should stay unchanged" in outcome(program)) == applies


@pytest.mark.parametrize(("rows", "applies"), [(7, False), (700, True)])
@pytest.mark.parametrize("condition", ["(dim(x, 0) < 700) != true", "(dim(x, 0) < 700) == (dim(x, 1) > 2)"])
def test_conditions_are_compared_by_their_truth(
    condition: str, rows: int, applies: bool, tmp_path: Path
) -> None:
    path = tmp_path / "rule.tsr"
    given = f"  input x : f32[{rows}, 2]\n"
    after = f"{given}  output relu(x)" if applies else "unchanged"
    path.write_text(
        f"rule r {{ relu(relu(x)) where rank(x) == 2, {condition} => relu(x) }}\n"
        f"test r {{\n{given}  output relu(relu(x))\n  => {after}\n}}\n"
    )
    assert outcome(load_program(str(path))) == ""
