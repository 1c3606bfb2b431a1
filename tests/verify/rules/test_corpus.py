"""False rules are refuted, each with a small counterexample; true ones pass, however odd they look."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verdict import Counterexample, Verdict
from tests.verify.rules.by_hand import evaluate

pytestmark = pytest.mark.sampled(8)

HERE = Path(__file__).parent


@cache
def program(name: str) -> Program:
    return load_program(str(HERE / name))


@cache
def examiner(name: str) -> Examiner:
    return Examiner(program(name).ops)


def own(name: str) -> list[RewriteRule]:
    return [r for r in program(name).rules if r.name.removesuffix("-back") in program(name).own_rules]


def verdict(name: str, rule: RewriteRule) -> Verdict:
    return examiner(name).verdict(rule)


def shape(type_: str) -> list[int]:
    inside = type_[type_.index("[") + 1 : -1]
    return [int(d) for d in inside.split(", ")] if inside else []


def arrays(found: Counterexample) -> dict[str, np.ndarray]:
    types = dict(found.variables)
    return {
        name: np.asarray(value, int if types[name][0] == "i" else float).reshape(shape(types[name]))
        for name, value in found.values
    }


def test_there_are_enough() -> None:
    assert len(own("false_rules.tsr")) >= 60
    assert len(own("true_rules.tsr")) >= 20


@pytest.mark.parametrize("rule", own("false_rules.tsr"), ids=lambda r: r.name)
def test_false_rule_is_refuted(rule: RewriteRule) -> None:
    result = verdict("false_rules.tsr", rule)
    assert result.status == "refuted"
    found = result.counterexample
    assert found is not None
    # The numbers that are printed are what the two terms compute, in four digits.
    values = arrays(found)
    left, right = (evaluate(side[found.output], values) for side in (found.before, found.after))
    assert left.shape == right.shape
    assert left[found.index] == pytest.approx(found.left, rel=5e-4)
    assert right[found.index] == pytest.approx(found.right, rel=5e-4)
    assert abs(found.left - found.right) > 1e-7
    # A reader can follow it.
    assert sum(math.prod(shape(t)) for _, t in found.variables) <= 18
    assert max((abs(v).max() for v in values.values()), default=0) <= 9


def test_a_list_rule_is_examined_for_several_lengths() -> None:
    """One that is about lists of three or more is refuted for these."""
    verdicts = {
        r.name: verdict(f, r) for f in ("true_rules.tsr", "false_rules.tsr") for r in own(f) if r.takes_lists
    }
    assert "lists of 1 to 4" in verdicts["list-scaled"].evidence
    found = verdicts["list-tanh-relu"].counterexample
    assert found is not None
    assert [name for name, _ in found.variables] == ["xs[0]", "xs[1]", "xs[2]"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (name, r)
        for name in ("false_operators.tsr", "false_values.tsr", "false_at_zero.tsr")
        for r in own(name)
    ],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_false_rule_about_other_operators_or_some_values_is_refuted(name: str, rule: RewriteRule) -> None:
    result = verdict(name, rule)
    assert result.status == "refuted"
    found = result.counterexample
    assert found is not None
    assert found.left != found.right
    assert sum(math.prod(shape(t)) for _, t in found.variables) <= 18


@pytest.mark.parametrize("rule", own("true_rules.tsr"), ids=lambda r: r.name)
def test_true_rule_passes(rule: RewriteRule) -> None:
    result = verdict("true_rules.tsr", rule)
    assert result.status == "tested"
    assert result.instances >= 15
