"""``tensat-dl bench join``: multi-pattern matching as the paper does it, and as a join in the engine."""

from __future__ import annotations

import click

from tensat_dl.bench.common import (
    ABLATION,
    Results,
    Row,
    json_option,
    models_argument,
    new_table,
    number_option,
    rules_option,
    seconds_option,
    where_of,
    where_options,
)

HEADINGS = (
    *("model", "k_multi", "e-nodes", "combinations", "matches"),
    *("product", "hash join", "find", "+read", "explore"),
    *("faster", "with read", "exploring"),
)
NOTES = (
    "product: the paper's algorithm 1 in plain Python; hash join: the same with its last step done by look-ups.",
    "find: our joins in the engine, shape checks included; +read: and the matches read into Python, in order.",
    "explore: as in an exploration, which counts first and reads no more matches than it may have e-nodes.",
    "faster: product / find, / +read, / explore. The others find the same matches, or the benchmark fails.",
)


@click.command("join")
@models_argument
@rules_option("taso", "pairs")
@number_option("--k-multi", 2, "Measure the searches of iterations 1 to N of the multi-pattern rules.")
@number_option("--runs", 5, "Median of N.")
@seconds_option("--time-limit", 60.0, "Enumerate a Cartesian product for at most S seconds.")
@where_options
@json_option
def command(
    models: tuple[str, ...],
    rules: str,
    k_multi: int,
    runs: int,
    time_limit: float,
    jobs: int | None,
    ray: str | None,
    json_path: str | None,
) -> int:
    """Algorithm 1 of the paper against our joins, on the same e-graphs, to the same matches.

    The e-graphs are those that the multi-pattern rules search in their first, second, .. iteration. A product that
    cannot be enumerated in the time limit is marked ">", with the time that its part took; "~" marks the time of the
    whole, estimated from that part.
    """
    models = models or ABLATION
    results = Results("join", json_path, models, where=where_of(jobs, ray))
    table = new_table(f"Multi-pattern matching, rules {rules}; seconds, median of {runs}", *HEADINGS)
    for model in models:
        found = results.measure(
            "tensat_dl.bench.join_cell:measure",
            [{"k_multi": k} for k in range(1, k_multi + 1)],
            600 + 4 * time_limit,
            model=model,
            pack=rules,
            runs=runs,
            time_limit=time_limit,
        )
        for row in found:
            table.add_row(*cells(row))
    return results.finish(table, NOTES)


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
