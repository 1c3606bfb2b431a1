"""``tensat-dl bench k-multi``: the paper's study of k_multi, with group rules beside it."""

from __future__ import annotations

import click

from tensat_dl.bench.common import (
    MODELS,
    Report,
    Row,
    check_json,
    cost,
    cost_kind,
    device_option,
    finish,
    json_option,
    limit_options,
    machine,
    measure_all,
    models_argument,
    seconds,
    size,
)

NOTES = (
    "A cell: cost; e-nodes; seconds of exploration (without starting) + extraction. n, t, m, >: the limit of",
    "e-nodes, time or memory ended exploration. ±: the choice is not proven optimal; how far off it may be.",
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
@limit_options(120.0)
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
    """What pairs find, and what they cost, as k_multi grows; beside it group rules, which need no k_multi, and both
    without any."""
    from rich.table import Table

    check_json(json_path, models or MODELS)
    table = Table(title=f"Rules {pack} by k_multi, and groups; {device}", show_lines=True)
    for heading in (
        "model",
        "input",
        *(f"k_multi {k}" for k in range(k_multi + 1)),
        "groups",
        "both, unlimited",
    ):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    options = {
        "rules": pack,
        "k_multi": k_multi,
        "max_nodes": max_nodes,
        "time_limit": time_limit,
        "device": device,
    }
    rows: list[Row] = []
    for model in models or MODELS:
        found = measure_all(
            "tensat_dl.bench.run_cell:measure",
            [
                *({"pack": pack, "k_multi": k} for k in range(k_multi + 1)),
                {"pack": "groups", "k_multi": 0},
                {"pack": "both", "k_multi": None},
            ],
            120 + 3 * time_limit,
            model=model,
            device=device,
            max_nodes=max_nodes,
            explore_seconds=time_limit,
            extract_seconds=time_limit,
        )
        rows += found
        Report("k-multi", options, machine(), rows).keep(json_path)
        before = next((f"{r['before']:.4f}" for r in found if "before" in r), "-")
        table.add_row(model, before, *map(cell, found))
    notes = [*NOTES, cost_kind(rows, device)]
    return finish(Report("k-multi", options, machine(), rows), table, notes, json_path)


def cell(row: Row) -> str:
    """Cost, size and time of one run."""
    if "error" in row:
        return "failed"
    return f"{cost(row)}\n{size(row)}\n{seconds(row)} + {row['seconds']['extract']:.2f} s"
