"""The table of ``tensat-dl bench extraction``: a line for each e-graph, a column for each method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensat_dl.bench.common import Row, size
from tensat_dl.extract.types import METHODS


def columns(methods: Sequence[str]) -> tuple[str, ...]:
    """Methods in the order of the table: those that it does not know are the last ones."""
    first = ("greedy", "greedy-dag", "ilp-real", "ilp-int", "ilp-none")
    return (*(m for m in first if m in methods), *(m for m in methods if m not in first))


#: What explores for these is told by `WAYS`.
COLUMNS = columns(METHODS)
HEADINGS = ("e-graph", "k", "e-nodes", "classes", *COLUMNS, "filtered\n/ kept")
NOTES = (
    "A cell: cost (seconds). ±: not proven optimal, and how far off it may be; greedy methods prove nothing.",
    "cyclic: refused, for ilp-none has no constraints against cycles. killed: ended, long after its time was up.",
    'A line "filtered" is of the model above it, explored with the efficient cycle filter; filtered / kept: the',
    "optimum of that e-graph, relative to the one with cycles kept, or between what it is where it is not proven.",
    "k: k_multi. n, t, m: the limit of e-nodes, time or memory ended exploration.",
)


def lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    """The cells of each line, for the headings."""
    by_egraph: dict[tuple[str, int | None, str | None], list[Row]] = {}
    for row in rows:
        by_egraph.setdefault((row["model"], row["k_multi"], row["cycles"]), []).append(row)
    for (model, k, cycles), found in by_egraph.items():
        filtered = cycles == "efficient"
        methods = {r["method"]: r for r in found if "method" in r}
        first = found[0]
        if "nodes" in first:
            sizes = [size(first), f"{first['classes']:,}"]
        else:
            sizes = ["failed" if "error" in first else "killed", ""]
        loss = ""
        if filtered:
            kept = (r for r in by_egraph.get((model, k, "none"), ()) if r.get("method") == "exact")
            loss = _loss(next(kept, None), methods.get("exact"))
        yield [
            "- filtered" if filtered else model.rpartition("/")[2],
            "" if filtered or k is None else str(k),
            *sizes,
            *(cell(methods[m]) if m in methods else "" for m in COLUMNS),
            loss,
        ]


def cell(row: Row) -> str:
    """What one method found."""
    if "error" in row:
        return "failed"
    if row["status"] == "cyclic":
        return "cyclic"
    seconds = f"({row['seconds']:.2f})" if row["seconds"] < 10 else f"({row['seconds']:.0f})"
    if row["status"] == "killed":
        return f"killed {seconds}"
    cost = f"{row['cost']:.5g}" if row["cycles"] is None else f"{row['cost']:.4f}"
    if row["status"] == "optimal" or row["method"].startswith("greedy"):
        return f"{cost} {seconds}"
    gap = f"{row['gap']:.1%}" if row["gap"] < 0.1 else f"{row['gap']:.0%}"
    return f"{cost} ±{gap} {seconds}"


def _loss(kept: Row | None, filtered: Row | None) -> str:
    """The optimum where cycles were filtered, relative to the other, or between what that is."""
    if kept is None or filtered is None or not kept.get("cost") or "cost" not in filtered:
        return "-"
    if kept["status"] == filtered["status"] == "optimal":
        return f"{filtered['cost'] / kept['cost']:.3f}"
    most = f"{filtered['cost'] / kept['bound']:.2f}" if kept["bound"] > 0 else "∞"
    return f"{filtered['bound'] / kept['cost']:.2f}–{most}"
