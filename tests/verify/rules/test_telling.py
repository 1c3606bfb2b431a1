"""A proved rule is tested on the first batch of instances, every other rule on both."""

from __future__ import annotations

import random

import pytest

from tensat_dl.core.graph import DTYPES
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rules.coverage import Coverage
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.prover import prover
from tensat_dl.verify.rules.telling import FIRST, INSTANCES, Telling
from tensat_dl.verify.rules.verdict import Verdict

SUM = "rule sum { x + y => y + x }"
LISTS = "rule lists { concat(relu(xs[i]) for i in 0..len(xs); axis = k) => relu(concat(xs[..]; axis = k)) }"


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("telling") / "rules.tsr"
    path.write_text(f"{SUM}\n{LISTS}\n", encoding="utf-8")
    return load_program(str(path))


def verdict(program: Program, name: str, proofs: bool) -> Verdict:
    (rule,) = (r for r in program.rules if r.name == name)
    return Examiner(program.ops, proofs=proofs).verdict(rule)


@pytest.mark.skipif(not prover(), reason="without z3 nothing is proved")
def test_a_proved_rule_needs_fewer_instances(program: Program) -> None:
    proved, tested = (verdict(program, "sum", proofs) for proofs in (True, False))
    assert (proved.status, tested.status) == ("proved", "tested")
    assert FIRST <= proved.instances < INSTANCES <= tested.instances


def test_the_first_batch_has_all_types_and_lengths(program: Program) -> None:
    for rule in (r for r in program.rules if r.name in program.own_rules):
        infer = Examiner(program.ops).infer
        coverage = Coverage(rule, infer, random.Random(0), lambda before, after: before != after)
        found = []
        for draw in Telling(rule, infer, 0, coverage).first():
            coverage.note(draw)
            found.append(draw[2])
        assert len({repr(i.assignment) for i in found}) == len(found)
        if rule.takes_lists:
            assert {i.members for i in found} == {1, 2, 3, 4}
        else:
            types = {t.dtype for i in found for t in i.assignment.types.values()}
            assert types >= set(DTYPES) - {"bool"}
