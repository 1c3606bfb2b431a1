"""Equations that are true and follow from no rules, as a pack."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tensat_dl.coverage.cells import Cell
from tensat_dl.coverage.equations import Law
from tensat_dl.discover.written import formatted

#: Stands for the operator in rules that several operators share.
FUNCTION = "fn"


def holes_text(cells: Sequence[Cell], imports: Sequence[str] = ()) -> str:
    """The file, with the files that it imports. What holds of several operators is one family of rules."""
    found: dict[tuple[str, Law], list[str]] = defaultdict(list)
    for cell in cells:
        for finding in cell.findings:
            if finding.status == "true":
                found[cell.transformation, _of(finding.law, cell.op, FUNCTION)].append(cell.op)
    rules = list(_rules(found))
    header = "// Found by `tensat-dl coverage`: true equations that no rules derived.\n\n"
    imported = "".join(f'import "{path}"\n' for path in imports)
    return formatted(header + imported + "\n".join(rules))


def _rules(found: dict[tuple[str, Law], list[str]]) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for (transformation, law), ops in found.items():
        many = len(ops) > 1
        name = f"pass-{transformation}-{FUNCTION if many else ops[0].replace('_', '-')}"
        counts[name] += 1
        if counts[name] > 1:
            name = f"{name}-{counts[name]}"
        own = law if many else _of(law, FUNCTION, ops[0])
        heading = f"{name} for {FUNCTION} in {', '.join(ops)}" if many else name
        conditions = f", where {' and '.join(own.where)}" if own.where else ""
        yield f"/// {own.left} = {own.right}{conditions}.\n{own.rule(heading)}"


def _of(law: Law, old: str, new: str) -> Law:
    """The equation about another operator."""

    def written(text: str) -> str:
        return re.sub(rf"\b{old}\(", f"{new}(", text)

    return Law(written(law.left), written(law.right), tuple(map(written, law.where)))
