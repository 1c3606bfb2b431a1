"""``tensat-dl bench k-multi``: the paper's study of k_multi, with group rules beside it."""

from __future__ import annotations

import click

from tensat_dl.bench.common import (
    MODELS,
    Report,
    Row,
    device_option,
    finish,
    json_option,
    machine,
    models_argument,
)
from tensat_dl.cli.options import Seconds

#: What a cell says of an exploration that a limit ended; saturation and the last iteration go without saying.
LIMITS = {"nodes": "n", "time": "t", "memory": "m"}
NOTES = (
    "A cell: cost in ms; e-nodes; seconds of exploration + extraction. After e-nodes, n, t or m: that limit (nodes,",
    "time, memory) ended exploration. After a cost, ±: the choice is not proven optimal; how far off it may be.",
)


@click.command("k-multi")
@models_argument
@click.option(
    "--rules",
    "pack",
    default="pairs",
    show_default=True,
    type=click.Choice(("pairs", "taso")),
    help="pairs: standard with pairs in place of groups; taso: the paper's rules.",
)
@click.option(
    "--k-multi", default=3, show_default=True, type=click.IntRange(0), metavar="N", help="From 0 to N."
)
@click.option("--max-nodes", default=50_000, show_default=True, type=click.IntRange(1), metavar="N")
@click.option(
    "--time-limit",
    default=120.0,
    show_default=True,
    type=Seconds(),
    metavar="S",
    help="Stop exploring after S seconds, and extracting after S more.",
)
@device_option
@json_option
def command(
    models: tuple[str, ...],
    pack: str,
    k_multi: int,
    max_nodes: int,
    time_limit: float,
    device: str,
    json_path: str | None,
) -> int:
    """What pairs find, and what they cost, as k_multi grows; beside it group rules, which need no k_multi."""
    from rich.table import Table

    from tensat_dl.bench.apart import Failed, apart

    table = Table(title=f"Rules {pack} by k_multi, and groups; {device}", show_lines=True)
    for heading in ("model", "input", *(f"k_multi {k}" for k in range(k_multi + 1)), "groups"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    rows: list[Row] = []
    for model in models or MODELS:
        cells = []
        for rules, k in [*((pack, k) for k in range(k_multi + 1)), ("groups", 0)]:
            try:
                row = apart(
                    "tensat_dl.bench.run_cell:measure",
                    120 + 3 * time_limit,
                    model=model,
                    pack=rules,
                    k_multi=k,
                    device=device,
                    max_nodes=max_nodes,
                    explore_seconds=time_limit,
                    extract_seconds=time_limit,
                )
            except Failed as e:
                row = {"model": model, "rules": rules, "k_multi": k, "error": str(e)}
            rows.append(row)
            cells.append(cell(row))
        before = next((f"{r['before']:.4f}" for r in reversed(rows) if "before" in r), "-")
        table.add_row(model, before, *cells)
    options = {"rules": pack, "k_multi": k_multi, "max_nodes": max_nodes, "time_limit": time_limit}
    notes = [*NOTES, cost_kind(rows, device)]
    return finish(Report("k-multi", {**options, "device": device}, machine(), rows), table, notes, json_path)


def cell(row: Row) -> str:
    """Cost, size and time of one run."""
    if "error" in row:
        return "failed"
    seconds = row["seconds"]
    size = f"{row['nodes']:,}{LIMITS.get(row['stop'], '')}"
    return f"{cost(row)}\n{size}\n{seconds['explore']:.1f} + {seconds['extract']:.1f} s"


def cost(row: Row) -> str:
    if row["status"] == "optimal":
        return f"{row['after']:.4f}"
    gap = "?" if row["gap"] is None else f"{row['gap']:.1%}"
    return f"{row['after']:.4f} ±{gap}"


def cost_kind(rows: list[Row], device: str) -> str:
    shares = [r["measured_share"] for r in rows if "measured_share" in r]
    kind = "estimated (roofline)" if not any(shares) else "partly measured"
    return f"Costs are {kind} for {device}."
