"""The published rules of TENSAT: false ones are refuted, the pack "taso" finds the others from their sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tensat_dl import resources
from tensat_dl.core.diagnostics import Source
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits
from tensat_dl.lang import ast
from tensat_dl.lang.load import read_source
from tensat_dl.lang.parser import parse
from tensat_dl.lang.program import Program, load_program
from tensat_dl.lang.rules import resolve_rule
from tensat_dl.lang.sexpr.importer import import_rules
from tensat_dl.verify.prove.equality import find_equal
from tensat_dl.verify.prove.goals import goal
from tensat_dl.verify.prove.prove import Prover
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.prover import prover

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "tensat"

#: The rules that are well-typed and false, by file and line. (Three more lines repeat some of them.)
FALSE = {f"converted-{i}" for i in (91, 92, 93, 115, 116, 117)} | {"converted-multi-23", "converted-multi-25"}
#: Convolutions of sums by sums multiply out to nine terms in any order. Their rules are found early.
EXPLOSIVE = {f"converted-{i}" for i in (32, 33, 34, 35)}
BATCH = 12


@cache
def taso() -> Program:
    return load_program(str(resources.rules() / "taso.tsr"))


@cache
def examiner() -> Examiner:
    return Examiner(taso().ops, proofs=bool(prover()))


@cache
def published() -> tuple[RewriteRule, ...]:
    """All of them, single-pattern rules first; empty where the files are not at hand."""
    if not FOLDER.is_dir():
        return ()
    found: list[RewriteRule] = []
    for file, multi in (("converted.txt", False), ("converted_multi.txt", True)):
        imported = import_rules(read_source(str(FOLDER / file)), multi, taso().ops)
        for item in parse(Source(file, imported.text)).items:
            assert isinstance(item, ast.Rule)
            found += resolve_rule(item, taso().ops)
    return tuple(found)


pytestmark = [
    pytest.mark.sampled(8),
    pytest.mark.skipif(not published(), reason="the published rules are not at hand"),
]


def batches() -> list[tuple[RewriteRule, ...]]:
    """True single-pattern rules several at a time, which is faster; the others one by one."""
    true = [r for r in published() if r.name not in FALSE]
    together = [r for r in true if r.kind == "single" and r.name not in EXPLOSIVE]
    alone = [r for r in true if r not in together]
    return [*(tuple(together[i : i + BATCH]) for i in range(0, len(together), BATCH)), *((r,) for r in alone)]


def test_all_are_read() -> None:
    """120 and 13 rules, less those that repeat another."""
    assert [r.kind for r in published()] == ["single"] * 116 + ["multi"] * 12


@pytest.mark.parametrize("rule", published(), ids=lambda r: r.name)
def test_true_or_false(rule: RewriteRule) -> None:
    """The true ones are proved for all sizes."""
    true = "proved" if prover() else "tested"
    assert examiner().verdict(rule).status == ("refuted" if rule.name in FALSE else true)


@pytest.mark.parametrize("rules", batches(), ids=lambda rules: f"{rules[0].name}..{rules[-1].name}")
def test_found_from_the_source(rules: tuple[RewriteRule, ...]) -> None:
    goals = [goal(rule, examiner().infer, 1) for rule in rules]
    pairs = [pair for g in goals for pair in g.pairs]
    multi = any(rule.kind == "multi" for rule in rules)
    limits = Limits(iterations=2 if rules[0].name in EXPLOSIVE else 15, k_multi=int(multi))
    found = find_equal(pairs, taso().rules, taso().ops, limits, both=False)
    missed = [g.rule for i, g in enumerate(goals) if i not in found.equal]
    assert len(pairs) == len(rules)
    assert not missed


@pytest.mark.parametrize("rule", [r for r in published() if r.name in FALSE], ids=lambda r: r.name)
def test_false_rule_is_not_found(rule: RewriteRule) -> None:
    """Not even where both sides are there from the beginning."""
    limits = Limits(nodes=5_000, iterations=4, k_multi=None)
    (proof,) = Prover(taso().rules, taso().ops, limits).run([goal(rule, examiner().infer, 6)])
    assert not proof.derived
