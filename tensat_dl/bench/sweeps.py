"""``tensat-dl bench cycles`` and ``bench k-multi``: ways of exploring, side by side on each model."""

from __future__ import annotations

import click

from tensat_dl.bench.common import (
    ABLATION,
    MODELS,
    Results,
    Row,
    cost,
    device_option,
    json_option,
    limit_options,
    models_argument,
    new_table,
    number_option,
    rules_option,
    seconds,
    size,
)

#: How cycles are treated, and how the e-graph that results is extracted from.
WAYS = {"vanilla": "ilp-none", "efficient": "ilp-none", "incremental": "ilp-none", "none": "exact"}
CYCLES_NOTES = (
    "A cell: seconds of exploration, without starting; e-nodes; cost. n: the e-node limit ended exploration;",
    "t and >: the time limit did. Acyclic e-graphs are extracted from by ilp-none, those with cycles by exact.",
    "±: the choice is not proven optimal; how far off it may be.",
)
K_MULTI_NOTES = (
    "A cell: cost; e-nodes; seconds of exploration (without starting) + extraction. n, t, m, >: the limit of",
    "e-nodes, time or memory ended exploration. ±: the choice is not proven optimal; how far off it may be.",
)


@click.command("cycles")
@models_argument
@rules_option("taso", "pairs", "groups")
@number_option("--k-multi", 2, "From 1 to N.")
@limit_options(300.0)
@device_option
@json_option
def cycles(
    models: tuple[str, ...],
    rules: str,
    k_multi: int,
    max_nodes: int,
    time_limit: float,
    device: str,
    json_path: str | None,
) -> int:
    """The paper's vanilla and efficient cycle filters, the incremental one, and none: time, size and cost."""
    models = models or ABLATION
    results = Results("cycles", json_path, models)
    title = f"Cycle filtering, rules {rules}; {device}"
    table = new_table(title, "model", "k_multi", *WAYS, show_lines=True)
    variants = [{"pack": rules, "cycles": way, "method": method} for way, method in WAYS.items()]
    for model in models:
        for k in range(1, k_multi + 1):
            found = _measured(
                results, model, [{**v, "k_multi": k} for v in variants], max_nodes, time_limit, device
            )
            cells = [f"{seconds(r)} s\n{size(r)}\n{cost(r)}" if "error" not in r else "failed" for r in found]
            table.add_row(model, str(k), *cells)
    return results.finish(table, [*CYCLES_NOTES, results.cost_kind(device)])


@click.command("k-multi")
@models_argument
@rules_option("pairs", "taso")
@number_option("--k-multi", 3, "From 0 to N.", least=0)
@limit_options(120.0)
@device_option
@json_option
def k_multi(
    models: tuple[str, ...],
    rules: str,
    k_multi: int,
    max_nodes: int,
    time_limit: float,
    device: str,
    json_path: str | None,
) -> int:
    """Pair rules as k_multi grows: cost, size and time. Beside them group rules alone, and both kinds without
    limit."""
    models = models or MODELS
    results = Results("k-multi", json_path, models)
    columns = [*(f"k_multi {k}" for k in range(k_multi + 1)), "groups", "both, unlimited"]
    title = f"Rules {rules} by k_multi, and groups; {device}"
    table = new_table(title, "model", "input", *columns, show_lines=True)
    variants: list[Row] = [{"pack": rules, "k_multi": k} for k in range(k_multi + 1)]
    variants += [{"pack": "groups", "k_multi": 0}, {"pack": "both", "k_multi": None}]
    for model in models:
        found = _measured(results, model, variants, max_nodes, time_limit, device)
        before = next((f"{r['before']:.4f}" for r in found if "before" in r), "-")
        cells = [
            f"{cost(r)}\n{size(r)}\n{seconds(r)} + {r['seconds']['extract']:.2f} s"
            if "error" not in r
            else "failed"
            for r in found
        ]
        table.add_row(model, before, *cells)
    return results.finish(table, [*K_MULTI_NOTES, results.cost_kind(device)])


def _measured(
    results: Results, model: str, variants: list[Row], max_nodes: int, time_limit: float, device: str
) -> list[Row]:
    """A model's rows, of runs that explore and extract for so many seconds each."""
    return results.measure(
        "tensat_dl.bench.cells:run",
        variants,
        120 + 3 * time_limit,
        model=model,
        device=device,
        max_nodes=max_nodes,
        explore_seconds=time_limit,
        extract_seconds=time_limit,
    )
