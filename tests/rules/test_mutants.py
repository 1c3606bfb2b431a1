"""A rule of the library with one random change that passes is true at sizes that its verdict did not try."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from tensat_dl.verify.rules.examine import Examiner
from tests.rules.mutants import library, mutants, wrong

MUTANTS = 150


@pytest.mark.sampled(15)
@pytest.mark.parametrize("number", range(MUTANTS))
def test_a_changed_rule_that_passes_is_true(number: int) -> None:
    (mutant,) = islice(mutants(number), 1)
    examiner = Examiner(library().ops)
    found = examiner.verdict(replace(mutant.rule, name="mutant"))
    assert found.status in ("refuted", "vacuous", "tested", "assumed")
    assert found.remarks or not wrong(mutant, found, examiner, number)


def test_changes_are_of_every_kind() -> None:
    kinds = {mutant.kind for mutant in islice(mutants(), 60)}
    assert kinds == {"condition", "number", "attribute", "operator", "operands"}
