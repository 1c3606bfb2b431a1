"""The output of a run: a summary of at most a screen, the numbers that matter first; with ``--verbose``, a table of
the iterations and of the work of each rule in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from tensat_dl.core.words import counted, plural
from tensat_dl.engine.exploration import Iteration
from tensat_dl.report.facts import (
    costs_come_from,
    gap,
    latency,
    measured,
    named_sizes,
    operators,
    rounds,
    rules_checked,
    running,
    seconds,
    size,
    stop_of,
    times_faster,
    trace,
    verified,
)
from tensat_dl.report.terminal import print_wrapped
from tensat_dl.run.growth import growth_line, together
from tensat_dl.run.result import Result
from tensat_dl.verify.exact.run import described

#: Lists show at most so many items, so that the summary fits on a screen.
MAX_ITEMS = 6
MAX_NOTES = 3

#: The largest count that is printed digit by digit: 40 members have more subsets.
MAX_COUNT = 10**12

#: Columns that labels take.
LABEL = 14

#: Columns that the table takes at most; a terminal may have more.
WIDTH = 80
#: Columns for the names of rules at least. Longer ones get a line of their own.
NAMES = 20

HEADER = ("", "matches", "applied", "e-nodes", "e-classes", "time")


def print_summary(result: Result, console: Console) -> None:
    """Prints the summary. A console that is no terminal gets plain text."""
    console.print(Text(result.before.graph.name, style="bold"))
    for label, value in _rows(result):
        print_row(label, value, console)


def print_row(label: str, value: Text | str, console: Console) -> None:
    """A line of the summary, or several if it is too long for one."""
    text = value if isinstance(value, Text) else Text(value)
    print_wrapped(text, Text(label.ljust(LABEL), "dim"), max(20, console.width - LABEL), console)


def _rows(result: Result) -> Iterator[tuple[str, Text]]:
    before, after = result.before, result.after
    faster, least = times_faster(result), min(before.total, after.total)
    yield (
        "cost",
        Text.assemble(
            f"{latency(before.total, least)} -> ",
            (latency(after.total, least), "bold"),
            "  ",
            (faster, "bold green" if after.total < before.total else ""),
            f"  ({costs_come_from(result.before, result.after, result.device)})",
        ),
    )
    if result.measured is not None:
        yield "measured", Text(measured(result.measured))
    yield "operators", Text(_operators(result))
    yield "weights", Text(f"{_change(size(before.weight_bytes), size(after.weight_bytes))} resident")
    yield from _searched(result)
    yield "verification", _verification(result)
    if result.exact is not None:
        yield "exactly", Text(described(result.exact))
    if result.sizes is not None:
        yield "sizes", Text(named_sizes(result.sizes))
    if result.buckets is not None:
        yield "buckets", Text(result.buckets.summary())
    used = sorted(result.rules_used, key=lambda r: (-r[1], r[0]))
    yield "new operators", Text(listed([f"{count} by {name}" for name, count in used]) or "none")
    if result.verdicts:
        failed = any(v.failed for v in result.verdicts)
        yield "rules applied", Text(rules_checked(result), style="bold red" if failed else "")
    phases = asdict(result.times)
    total = phases.pop("total")
    if result.measured is None:
        del phases["measure"]
    shown = ", ".join(f"{name} {seconds(value)}" for name, value in phases.items())
    yield "time", Text(f"{seconds(total)}: {shown}")
    for i, note in enumerate(result.notes[:MAX_NOTES]):
        yield ("notes" if i == 0 else ""), Text(note)
    if len(result.notes) > MAX_NOTES:
        left = counted(len(result.notes) - MAX_NOTES, "more note")
        yield "", Text(f"and {left}, which --json and --html list")


def _searched(result: Result) -> Iterator[tuple[str, Text]]:
    """The rows about the search."""
    if result.trace is not None:
        for label, line in zip(("search", "speed"), trace(result.trace), strict=True):
            yield label, Text(line)
        steps = listed([f"{n} by {rule}" for rule, n in Counter(result.trace.steps).most_common()])
        yield "steps", Text(f"{len(result.trace.steps)}: {steps}" if steps else "none")
        return
    count = len(result.iterations)
    yield (
        "e-graph",
        Text(
            f"{counted(result.nodes, 'e-node')} in {counted(result.classes, 'e-class', 'es')} after "
            f"{counted(count, 'iteration')}; {stop_of(result)}"
        ),
    )
    if groups := result.groups.count:
        merged, possible = result.groups.merged, result.groups.possible
        total = f"{possible:,}" if possible <= MAX_COUNT else f"more than {MAX_COUNT:,}"
        subsets = f"{merged:,} of {total} subsets of members merged"
        yield "groups", Text(f"{groups:,} {plural(groups, 'group')}; {subsets}")
    if grown := growth_line(result.iterations, result.stop):
        yield "growth", Text(grown)
    extraction = result.extraction
    yield "extraction", Text(f"{extraction.method}: {gap(result)}, {seconds(extraction.seconds)}")
    yield "rounds", Text(rounds(result))


def _operators(result: Result) -> str:
    total = [len(running(p.graph)) for p in (result.before, result.after)]
    counts = [operators(p.graph) for p in (result.before, result.after)]
    pairs = [(op, counts[0].get(op, 0), counts[1].get(op, 0)) for op in sorted({*counts[0], *counts[1]})]
    changed = sorted((p for p in pairs if p[1] != p[2]), key=lambda p: (-abs(p[1] - p[2]), p[0]))
    names = listed([f"{op} {old} -> {new}" for op, old, new in changed])
    return _change(str(total[0]), str(total[1])) + (f": {names}" if names else "")


def _verification(result: Result) -> Text:
    found = result.equivalence
    style = ""
    if found is not None:
        style = {"equivalent": "green", "inconclusive": "yellow", "different": "bold red"}[found.status]
    text = Text(verified(result), style=style)
    if found is not None and found.message:
        text.append(f"; {found.message}")
    return text


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def listed(items: Sequence[str]) -> str:
    """The first items, and how many more there are."""
    more = len(items) - MAX_ITEMS
    return ", ".join(items[:MAX_ITEMS]) + (f", and {more} more" if more > 0 else "")


def print_iterations(iterations: Sequence[Iteration], console: Console) -> None:
    """Prints the table. Lines are never broken by the console, so that they can be searched in a pipe."""
    rows = [(HEADER, "dim", ""), *_table(iterations)]
    widths = [max(len(cells[i]) for cells, _, _ in rows) for i in range(1, len(HEADER))]
    room = min(WIDTH, console.width)
    names = max(NAMES, room - sum(w + 2 for w in widths))
    names = min(names, max(len(cells[0]) for cells, _, _ in rows))
    for (name, *numbers), style, note in rows:
        right = "".join(f"  {n:>{w}}" for n, w in zip(numbers, widths, strict=True))
        if len(name) > names:
            console.print(Text(name, style), soft_wrap=True)
            name = ""
        console.print(Text((name.ljust(names) + right).rstrip(), style), soft_wrap=True)
        if note:
            print_wrapped(Text(note, "dim"), "    ", max(NAMES, room - 4), console)
    if not iterations:
        console.print(Text("no iteration was completed", "dim"), soft_wrap=True)


def _table(iterations: Sequence[Iteration]) -> Iterator[tuple[Sequence[str], str, str]]:
    """For each row its cells, their style, and a note below them."""
    for number, it in enumerate(iterations, 1):
        notes = []
        if it.skipped:
            notes.append(f"{it.skipped:,} matches skipped: they would close a cycle")
        if it.filtered:
            notes.append(f"{it.filtered:,} e-nodes on the filter list")
        sizes = f"{it.nodes:,}", f"{it.classes:,}", seconds(it.seconds)
        yield (f"iteration {number}", "", "", *sizes), "bold", "; ".join(notes)
        for r in together(it.rules):
            brought = f"{r.new_nodes:+,}" if r.new_nodes else "0"
            work = f"{r.matches:,}", f"{r.applied:,}", brought, "", seconds(r.seconds)
            yield (f"  {r.rule}", *work), "", r.note
