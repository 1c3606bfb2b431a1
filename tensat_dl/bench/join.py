"""``tensat-dl bench join``: multi-pattern matching as the paper does it, and as a join in the engine."""

from __future__ import annotations

import click

from tensat_dl.bench.common import (
    ABLATION,
    Report,
    Row,
    check_json,
    finish,
    json_option,
    machine,
    measure_all,
    models_argument,
)
from tensat_dl.cli.options import Seconds

NOTES = (
    "product: the paper's algorithm 1 in plain Python; hash join: the same with its last step done by look-ups.",
    "find: our joins in the engine, shape checks included; +read: and the matches read into Python, in order.",
    "explore: what an exploration does: it counts first, and reads no more matches than it may have e-nodes.",
    "faster: product / find, / +read, / explore. The others find the same matches, or the benchmark fails.",
)


@click.command("join")
@models_argument
@click.option(
    "--rules",
    "pack",
    default="taso",
    show_default=True,
    type=click.Choice(("taso", "pairs")),
    help="taso: the paper's rules; pairs: standard with pairs in place of groups.",
)
@click.option(
    "--k-multi",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Measure the searches of iterations 1 to N of the multi-pattern rules.",
)
@click.option(
    "--runs", default=5, show_default=True, type=click.IntRange(1), metavar="N", help="Median of N."
)
@click.option(
    "--time-limit",
    default=60.0,
    show_default=True,
    type=Seconds(),
    metavar="S",
    help="Enumerate a Cartesian product for at most S seconds.",
)
@json_option
def command(
    models: tuple[str, ...], pack: str, k_multi: int, runs: int, time_limit: float, json_path: str | None
) -> int:
    """Algorithm 1 of the paper against our joins, on the same e-graphs, to the same matches.

    The e-graphs are those that the multi-pattern rules search in their first, second, .. iteration. A product that
    cannot be enumerated in the time limit is marked ">": that is how long the part took; "~" is what the whole
    would take, estimated from that part.
    """
    from rich.table import Table

    check_json(json_path, models or ABLATION)
    table = Table(title=f"Multi-pattern matching, rules {pack}; seconds, median of {runs}")
    headings = ("model", "k_multi", "e-nodes", "combinations", "matches")
    for heading in (
        *headings,
        "product",
        "hash join",
        "find",
        "+read",
        "explore",
        "faster",
        "with read",
        "exploring",
    ):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    options = {"rules": pack, "k_multi": k_multi, "runs": runs, "time_limit": time_limit}
    rows: list[Row] = []
    for model in models or ABLATION:
        found = measure_all(
            "tensat_dl.bench.join_cell:measure",
            [{"k_multi": k} for k in range(1, k_multi + 1)],
            600 + 4 * time_limit,
            model=model,
            pack=pack,
            runs=runs,
            time_limit=time_limit,
        )
        rows += found
        Report("join", options, machine(), rows).keep(json_path)
        for row in found:
            table.add_row(*cells(row))
    return finish(Report("join", options, machine(), rows), table, NOTES, json_path)


def cells(row: Row) -> list[str]:
    if "error" in row or row["nodes"] is None:
        why = "failed" if "error" in row else "not reached"
        return [row["model"], str(row["k_multi"]), why, *["-"] * 10]
    seconds = row["seconds"]
    product, estimated = seconds["product"], seconds["product_estimated"]
    partial = row["enumerated"] < 1
    mark = "~" if partial else ""
    return [
        row["model"],
        str(row["k_multi"]),
        f"{row['nodes']:,}",
        f"{row['combinations']:,}",
        f"{row['matches']:,}",
        f"> {product:.0f} (~{estimated:,.0f})" if partial else f"{product:.3f}",
        f"{seconds['hash_join']:.3f}",
        f"{seconds['find']:.3f}",
        f"{seconds['read']:.3f}",
        f"{seconds['explore']:.3f}",
        *(f"{mark}{estimated / seconds[way]:.1f}x" for way in ("find", "read", "explore")),
    ]
