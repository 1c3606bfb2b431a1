"""``tensat-dl bench cycles``: filtering cycles while exploring, as the paper does it and faster, or not at all."""

from __future__ import annotations

import click

from tensat_dl.bench.common import (
    ABLATION,
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

#: How cycles are treated, and how the e-graph that results is extracted from.
WAYS = {"vanilla": "ilp-none", "efficient": "ilp-none", "incremental": "ilp-none", "none": "exact"}
NOTES = (
    "A cell: seconds of exploration, without starting; e-nodes; cost. n: the e-node limit ended exploration;",
    "t and >: the time limit did. Acyclic e-graphs are extracted from by ilp-none, those with cycles by exact.",
    "±: the choice is not proven optimal; how far off it may be.",
)


@click.command("cycles")
@models_argument
@click.option(
    "--rules",
    "pack",
    default="taso",
    show_default=True,
    type=click.Choice(("taso", "pairs", "groups")),
    help="taso: the paper's rules; pairs: standard with pairs in place of groups; groups: standard.",
)
@click.option(
    "--k-multi", default=2, show_default=True, type=click.IntRange(1), metavar="N", help="From 1 to N."
)
@limit_options(300.0)
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
    """The paper's vanilla and efficient cycle filters, the incremental one, and none: time, size and cost."""
    from rich.table import Table

    check_json(json_path, models or ABLATION)
    table = Table(title=f"Cycle filtering, rules {pack}; {device}", show_lines=True)
    for heading in ("model", "k_multi", *WAYS):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    options = {
        "rules": pack,
        "k_multi": k_multi,
        "max_nodes": max_nodes,
        "time_limit": time_limit,
        "device": device,
    }
    rows: list[Row] = []
    for model in models or ABLATION:
        for k in range(1, k_multi + 1):
            found = measure_all(
                "tensat_dl.bench.run_cell:measure",
                [{"cycles": way, "method": method} for way, method in WAYS.items()],
                120 + 3 * time_limit,
                model=model,
                pack=pack,
                k_multi=k,
                device=device,
                max_nodes=max_nodes,
                explore_seconds=time_limit,
                extract_seconds=time_limit,
            )
            rows += found
            Report("cycles", options, machine(), rows).keep(json_path)
            table.add_row(model, str(k), *map(cell, found))
    notes = [*NOTES, cost_kind(rows, device)]
    return finish(Report("cycles", options, machine(), rows), table, notes, json_path)


def cell(row: Row) -> str:
    """Time, size and cost of one run."""
    if "error" in row:
        return "failed"
    return f"{seconds(row)} s\n{size(row)}\n{cost(row)}"
