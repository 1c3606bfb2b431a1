"""The table of ``tensat-dl bench onnx``, for the terminal and for the documents."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import TYPE_CHECKING

from tensat_dl.bench.common import Row

if TYPE_CHECKING:
    from rich.table import Table

OURS = "tensat-dl"


def headings(peers: Sequence[str]) -> list[str]:
    return [
        "model",
        "nodes",
        "opaque",
        "original ms",
        "predicted ms",
        "tensat-dl",
        "nodes",
        *peers,
        "agrees",
        "seconds",
    ]


def line(row: Row, peers: Sequence[str]) -> list[str]:
    """A row as text. Speed-ups are with their 99% intervals; what is unchanged is 1.00x."""
    latency, predicted = row["latency"]["original"], row["predicted_ms"]["before"]
    found = row["agreement"][OURS]
    return [
        row["model"],
        str(row["nodes"]["original"]),
        f"{row['opaque'] / max(1, row['operators']):.0%}",
        f"{latency['median_ms']:.2f} ± {latency['iqr_ms']:.2f}",
        f"{predicted:.2f} ({predicted / latency['median_ms'] - 1:+.0%})",
        _cell(row, OURS),
        str(row["nodes"][OURS]),
        *(_cell(row, peer) for peer in peers),
        found["status"] if found["status"] != "agrees" else f"{found['max_rel']:.0e}",
        f"{row['seconds'][OURS]:.0f}",
    ]


def _cell(row: Row, tool: str) -> str:
    """A speed-up with its interval."""
    if tool == OURS and row["answer"] == "original":
        return "1.00x unchanged"
    if tool in row.get("failed", {}):
        return "failed"
    found = row["speedup"].get(tool)
    if found is None:
        return "wrong" if tool in row["agreement"] else "-"
    narrow = " (one size)" if row["agreement"][tool]["status"] == "narrow" else ""
    return f"{found['median']:.2f}x ({found['low']:.2f}-{found['high']:.2f}){narrow}"


def speedup(row: Row, tool: str) -> float | None:
    """How many times as fast a model is; None if a tool has no right answer."""
    if tool == OURS and row["answer"] == "original":
        return 1.0
    found = row["speedup"].get(tool)
    return None if found is None else float(found["median"])


def mean(rows: Sequence[Row], tool: str) -> tuple[float, int]:
    """The geometric mean over the models of which a tool made something right, and how many these are."""
    found = [s for r in rows if (s := speedup(r, tool)) is not None]
    return (exp(sum(map(log, found)) / len(found)) if found else 1.0), len(found)


def notes(rows: Sequence[Row]) -> list[str]:
    done = [r for r in rows if "error" not in r]
    if not done:
        return []
    tools = [OURS, *dict.fromkeys(t for r in done for t in r["speedup"] if t != OURS)]
    means = [(t, *mean(done, t)) for t in tools]
    worse = [
        r["model"]
        for r in done
        if r["answer"] != "original" and r["speedup"].get(OURS, {}).get("high", 1) < 1
    ]
    errors = sorted(
        abs(log(r["predicted_ms"]["before"] / r["latency"]["original"]["median_ms"])) for r in done
    )
    return [
        "geometric mean: " + ", ".join(f"{tool} {m:.3f}x ({count} models)" for tool, m, count in means),
        f"slower than the original: {', '.join(worse) or 'none'}",
        f"predicted latency of the original: median error {exp(errors[len(errors) // 2]) - 1:.0%}",
    ]


def table(rows: Sequence[Row], peers: Sequence[str]) -> Table:
    from rich.table import Table

    made = Table(title="times as fast as the original in ONNX Runtime, 99% interval")
    for i, heading in enumerate(headings(peers)):
        made.add_column(heading, justify="right" if i else "left")
    for row in rows:
        if "error" not in row:
            made.add_row(*line(row, peers))
    return made
