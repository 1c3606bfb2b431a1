"""The table that ``--verbose`` prints: iterations, and the work of each rule in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from tensat_dl.engine.iterations import Iteration, RuleStats
from tensat_dl.report.facts import seconds
from tensat_dl.run.growth import together

#: Columns that the table takes at most; a terminal may have more.
WIDTH = 80
#: Columns for the names of rules at least. Longer ones get a line of their own.
NAMES = 20

HEADER = ("", "matches", "applied", "e-nodes", "e-classes", "time")


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    style: str = ""
    note: str = ""


def print_iterations(iterations: Sequence[Iteration], console: Console) -> None:
    """Prints the table. Lines are never broken by the console, so that they can be searched in a pipe."""
    rows = [_Row(HEADER, "dim"), *_rows(iterations)]
    widths = [max(len(row.cells[i]) for row in rows) for i in range(1, len(HEADER))]
    room = min(WIDTH, console.width)
    names = max(NAMES, room - sum(w + 2 for w in widths))
    names = min(names, max(len(row.cells[0]) for row in rows))
    for row in rows:
        name, *numbers = row.cells
        right = "".join(f"  {n:>{w}}" for n, w in zip(numbers, widths, strict=True))
        if len(name) > names:
            _print(Text(name, row.style), console)
            name = ""
        _print(Text((name.ljust(names) + right).rstrip(), row.style), console)
        if row.note:
            for line in Text(row.note, "dim").wrap(console, max(NAMES, room - 4)):
                line.rstrip()
                _print(Text.assemble("    ", line), console)
    if not iterations:
        _print(Text("no iteration was completed", "dim"), console)


def _print(line: Text, console: Console) -> None:
    console.print(line, soft_wrap=True)


def _rows(iterations: Sequence[Iteration]) -> Iterator[_Row]:
    for number, it in enumerate(iterations, 1):
        notes = []
        if it.skipped:
            notes.append(f"{it.skipped:,} matches skipped: they would close a cycle")
        if it.filtered:
            notes.append(f"{it.filtered:,} e-nodes on the filter list")
        yield _Row(
            (f"iteration {number}", "", "", f"{it.nodes:,}", f"{it.classes:,}", seconds(it.seconds)),
            "bold",
            "; ".join(notes),
        )
        for rule in together(it.rules):
            yield _rule(rule)


def _rule(rule: RuleStats) -> _Row:
    cells = (
        f"  {rule.rule}",
        f"{rule.matches:,}",
        f"{rule.applied:,}",
        f"{rule.new_nodes:+,}" if rule.new_nodes else "0",
        "",
        seconds(rule.seconds),
    )
    return _Row(cells, note=rule.note)
