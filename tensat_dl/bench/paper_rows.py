"""What the page and the figures of ``tensat-dl bench paper`` read in recorded rows, and how they write it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from statistics import mean, stdev
from textwrap import wrap
from typing import Any

from tensat_dl.bench.common import Row

#: The two-sided 95 % points of Student's distribution by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78}
FIGURES = {
    "paper-speedup": "Speed-up of the answer over the original, by search.",
    "paper-time": "Processor seconds of the searches, on a logarithmic scale.",
    "paper-anytime": "Speed-up of the best graph over processor seconds.",
    "paper-k-multi": "Speed-up, e-nodes and seconds by k_multi.",
}


def of(rows: Iterable[Row], part: str, **given: Any) -> list[Row]:
    """The rows of a part with these arguments, without failed ones."""
    return [
        r
        for r in rows
        if r["part"] == part and "error" not in r and all(r.get(k) == v for k, v in given.items())
    ]


def first(rows: Iterable[Row], part: str, **given: Any) -> Row | None:
    return next(iter(of(rows, part, **given)), None)


def reached(row: Row, cost: float) -> float | None:
    """When a search had a graph that costs no more; None if it never had."""
    return next((s for s, c in row["gains"] if c <= cost * (1 + 1e-9)), None)


def spent(row: Row, cost: float) -> Row | None:
    """What a search of ours did until it had a graph that costs no more, in seconds; None if that is not known."""
    costs = [c for _, c in row["gains"]][1:]
    return next(
        (parts for c, parts in zip(costs, row.get("spent", ()), strict=False) if c <= cost * (1 + 1e-9)), None
    )


def models_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(r["model"] for r in rows))


def percent(row: Row | None) -> str:
    """The speed-up in per cent, as the paper counts it."""
    return "–" if row is None else f"{100 * (row['before'] / row['after'] - 1):.1f}"


def interval(values: Sequence[float]) -> str:
    """The mean, with the 95 % interval of the mean if there are several."""
    if len(values) < 2:
        return f"{values[0]:.1f}" if values else "–"
    half = STUDENT.get(len(values) - 1, 2.6) * stdev(values) / sqrt(len(values))
    return f"{mean(values):.1f} ± {half:.1f}"


def speedups(rows: Iterable[Row]) -> list[float]:
    return [100 * (r["before"] / r["after"] - 1) for r in rows]


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def prose(text: str) -> Iterator[str]:
    """A paragraph, or an item of a list, in lines."""
    indent = "  " if text.startswith("- ") else ""
    yield from wrap(text, 116, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def table(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown; the first line has the headings."""
    for number, cells in enumerate(lines):
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|---{'|--:' * (len(cells) - 1)}|"


def figure(name: str) -> Iterator[str]:
    yield f"![{FIGURES[name]}](figures/{name}.svg)"
    yield ""
