"""docs/coverage.md is what the command says, for a few cells each day."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tensat_dl.core.diagnostics import Source
from tensat_dl.coverage.catalogue import stated
from tensat_dl.coverage.cells import LIMITS, questions, telling_goal
from tensat_dl.coverage.equations import Law
from tensat_dl.coverage.transformations import TRANSFORMATIONS
from tensat_dl.discover.written import rewrites
from tensat_dl.lang.library import library_operators, packs
from tensat_dl.lang.program import load_program
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.prove.prove import Prover, axioms_of
from tensat_dl.verify.rules.examine import Examiner

TEXT = (Path(__file__).parents[2] / "docs" / "coverage.md").read_text(encoding="utf-8")
_LINE = re.compile(r"- \*([\w-]+)\*: `(.*?)` = `(.*?)`(?: where `(.*?)`)?(: | is false: )(.*)")


@dataclass(frozen=True)
class Line:
    """A line of the page: an equation and what the page says of it."""

    op: str
    transformation: str
    law: Law
    false: bool
    told: str

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(re.findall(r"`(.*?)`", self.told))


def lines() -> list[Line]:
    found = []
    for section in TEXT.split("\n## ")[1:]:
        op, _, body = section.partition("\n")
        for transformation, left, right, where, sign, told in _LINE.findall(body):
            law = Law(left, right, (where,) if where else ())
            found.append(Line(op, transformation, law, sign != ": ", told))
    return found


LINES = lines()
#: The cells of the table, by operator.
ROWS = {
    cells[0]: cells[1:]
    for line in TEXT.splitlines()
    if line.startswith("| [")
    for cells in [[c.strip() for c in line.strip("|").split("|")]]
}


@cache
def axioms() -> tuple[object, ...]:
    names = packs()
    program = load_program("page.tsr", names, Source("page.tsr", ""))
    return axioms_of(program, names)


def test_every_cell_says_something() -> None:
    assert len(ROWS) > 40
    for op, cells in ROWS.items():
        assert len(cells) == len(TRANSFORMATIONS), op
        assert set(cells) <= {"rule", "derived", "true", "false", "–"}, op


def test_the_table_says_what_the_list_says() -> None:
    for op, cells in ROWS.items():
        name = op.strip("[").partition("]")[0]
        for t, cell in zip(TRANSFORMATIONS, cells, strict=True):
            own = [x for x in LINES if (x.op, x.transformation) == (name, t.name)]
            if cell == "–":
                assert not own
                assert f"- *{t.name}*: –, " in TEXT
            elif cell == "false":
                assert own
                assert all(x.false for x in own)
            elif cell == "true":
                assert {x.told for x in own if not x.false} <= {"proved, no rule", "tested, no rule"}
            else:
                assert any(x.told.partition(", ")[2].startswith(("rule", "derived")) for x in own)


@pytest.mark.sampled(100)
@pytest.mark.parametrize("line", LINES, ids=lambda x: f"{x.op}-{x.transformation}")
def test_a_line_is_right(line: Line) -> None:
    ops = library_operators()
    asked = {law for q in questions(ops[line.op], line.transformation) for law in q}
    asked |= set(stated(line.op, line.transformation))
    same = [law for law in asked if (law.left, law.right, ", ".join(law.where)) == _text(line.law)]
    assert same, "the command would not ask this"
    (rule, *_) = rewrites(line.law.rule("line"), ops)
    verdict = Examiner(ops, thorough=False).verdict(rule)
    assert verdict.status == ("refuted" if line.false else "tested")
    if line.rules and not line.false:
        own = [a for a in axioms() if a.declared in line.rules]  # type: ignore[attr-defined]
        (proof,) = Prover(tuple(own), ops, LIMITS).run([telling_goal(rule, Inference(ops))])  # type: ignore[arg-type]
        assert proof.derived


def _text(law: Law) -> tuple[str, str, str]:
    return law.left, law.right, ", ".join(law.where)
