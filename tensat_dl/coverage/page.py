"""Cells as a page of the documents, and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tensat_dl.core.words import series
from tensat_dl.coverage.cells import Cell, Finding
from tensat_dl.coverage.transformations import TRANSFORMATIONS

#: What a cell of the table says, by the status of the cell.
SIGNS = {"rule": "rule", "derived": "derived", "true": "true", "false": "false", "none": "–"}
#: What is counted of cells, by status.
COUNTED = {
    "rule": "are rules",
    "derived": "are derived",
    "true": "are true without a rule",
    "false": "are false",
    "none": "do not apply",
}
INTRODUCTION = """\
# Coverage

How the operators of the library and transformations of tensors pass each other. `tensat-dl coverage` asks for each of
{operators} operators and {transformations} transformations whether an equation is true that has the transformation
before the operator on one side and after it on the other; it wrote this page.
[Verification](verification.md#coverage) says how, and how to ask about operators that are not here.

- *rule*: a rule of the library says it.
- *derived*: several rules of the library together say it. The list below the table names them.
- *true*: an equation is true, and the packs do not say it. `tensat-dl coverage --holes FILE` writes these as a pack.
- *false*: no equation that was tried is true. The list has the equation that one would expect, and values for which
  its sides differ.
- –: the two never fit each other's types. The list has the reason.

An equation is about numbers that both sides have. Where a side divides by 0 whatever its inputs are, as a quotient of
padding does, it says nothing; `tensat-dl check` tells that from the rule.

{counts}

An equation is a rule of the packs for models if it brings operators together that can then cancel or merge. Others
take room in the e-graph and lower no cost:

- *transpose*, *reshape*: movements leave the operators that networks have between two of them. Integers, truth values
  and operands that are moved alike are seldom there.
- *concat*, *slice*: functions that networks apply to several parts become one. Past other operators, slices and joins
  take as long as before.
- *pad*: padding moves into convolutions and pools. Elsewhere an operator takes longer on a padded tensor.
- *broadcast*: an operand is not stretched where the operator does so itself. Else stretching the result costs less.
- *cast*: an operator would be computed in another type, which rounds differently.
- *scale*, *shift*, *negate*: numbers move towards weights, which absorb them. Past other operators they cost as
  much as before.

*Proved* is about all sizes, *tested* about the instances that `tensat-dl check` draws. An asterisk marks
rules that are not all in the pack `inference`.
"""


def page(cells: Sequence[Cell]) -> str:
    """The page: a table with a row for each operator, and the equations."""
    names = [t.name for t in TRANSFORMATIONS if any(c.transformation == t.name for c in cells)]
    ops = list(dict.fromkeys(c.op for c in cells))
    counts = Counter(c.status for c in cells)
    told = [f"{counts[s]:,} {words}" for s, words in COUNTED.items() if counts[s]]
    lines = [
        INTRODUCTION.format(
            operators=len(ops),
            transformations=len(names),
            counts=f"Of {len(cells):,} cells, {series(told)}.",
        )
    ]
    lines += ["| transformation | of a tensor x |", "|---|---|"]
    lines += [f"| {t.title} | `{t.term}` |" for t in TRANSFORMATIONS if t.name in names]
    lines += ["", *_table(cells, ops, names)]
    for op in ops:
        lines += ["", f"## {op}", ""]
        for cell in (c for c in cells if c.op == op):
            lines += _cell(cell)
    return "\n".join(lines) + "\n"


def _table(cells: Sequence[Cell], ops: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    known = {(c.op, c.transformation): c for c in cells}
    titles = {t.name: t.title for t in TRANSFORMATIONS}
    yield f"| operator | {' | '.join(titles[n] for n in names)} |"
    yield f"|---|{'---|' * len(names)}"
    for op in ops:
        row = [known.get((op, n)) for n in names]
        yield f"| [{op}](#{op}) | {' | '.join('' if c is None else SIGNS[c.status] for c in row)} |"


def _cell(cell: Cell) -> Iterator[str]:
    if not cell.findings:
        yield f"- *{cell.transformation}*: –, {cell.reason}"
    for finding in cell.findings:
        yield f"- *{cell.transformation}*: {finding_text(finding)}"


def finding_text(finding: Finding) -> str:
    """An equation and what is known of it, in one line."""
    law = finding.law
    where = f" where `{', '.join(law.where)}`" if law.where else ""
    equation = f"`{law.left}` = `{law.right}`{where}"
    if finding.status == "false":
        return f"{equation} is false: {'; '.join(shortest(finding))}"
    mark = "" if finding.source in ("", "inference") else "\\*"
    return f"{equation}: {known(finding, '`')}{mark}"


def known(finding: Finding, quote: str = "") -> str:
    """What is known of a true equation."""
    proved = "proved" if finding.evidence.startswith("all sizes") else "tested"
    names = ", ".join(f"{quote}{name}{quote}" for name in finding.rules)
    if finding.status == "true":
        return f"{proved}, no rule"
    if not names:
        return f"{proved}, derived by computing alike"
    return f"{proved}, {'rule' if len(finding.rules) == 1 else 'derived from'} {names}"


def shortest(finding: Finding) -> list[str]:
    """A counterexample without the two sides, which are the equation's."""
    return [line for line in finding.counterexample if not line.startswith(("left: ", "right: "))]


def cells_to_json(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Cells as data."""
    return [
        {
            "operator": c.op,
            "transformation": c.transformation,
            "status": c.status,
            "reason": c.reason,
            "equations": [
                {
                    "left": a.law.left,
                    "right": a.law.right,
                    "where": list(a.law.where),
                    "status": a.status,
                    "evidence": a.evidence,
                    "rules": list(a.rules),
                    "from": a.source,
                    "counterexample": list(a.counterexample),
                }
                for a in c.findings
            ],
        }
        for c in cells
    ]
