"""``tensat-dl bench cycles`` and ``bench k-multi``: ways of exploring, side by side on each model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

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
    where_of,
    where_options,
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


@dataclass(frozen=True, slots=True)
class Sweep:
    """The options of a benchmark that explores and extracts for ``time_limit`` seconds each."""

    models: tuple[str, ...]
    rules: str
    k_multi: int
    max_nodes: int
    time_limit: float
    device: str
    jobs: int | None
    ray: str | None
    json_path: str | None

    def measured(self, results: Results, model: str, variants: list[Row]) -> list[Row]:
        """A model's rows."""
        return results.measure(
            "tensat_dl.bench.cells:run",
            variants,
            120 + 3 * self.time_limit,
            model=model,
            device=self.device,
            max_nodes=self.max_nodes,
            explore_seconds=self.time_limit,
            extract_seconds=self.time_limit,
        )


def _sweep(
    name: str, packs: Sequence[str], k_multi: int, least: int, seconds: float
) -> Callable[[Callable[[Sweep], int]], click.Command]:
    """Makes a command with the options of a `Sweep`; ``k_multi`` and ``seconds`` are defaults."""
    options = (
        models_argument,
        rules_option(*packs),
        number_option("--k-multi", k_multi, f"From {least} to N.", least=least),
        limit_options(seconds),
        device_option,
        where_options,
        json_option,
    )

    def command(function: Callable[[Sweep], int]) -> click.Command:
        @wraps(function)
        def run(**given: Any) -> int:
            return function(Sweep(**given))

        for option in reversed(options):
            run = option(run)
        return click.command(name)(run)

    return command


@_sweep("cycles", ("taso", "pairs", "groups"), 2, 1, 300.0)
def cycles(options: Sweep) -> int:
    """The paper's vanilla and efficient cycle filters, the incremental one, and none: time, size and cost."""
    models = options.models or ABLATION
    results = Results("cycles", options.json_path, models, where=where_of(options.jobs, options.ray))
    title = f"Cycle filtering, rules {options.rules}; {options.device}"
    table = new_table(title, "model", "k_multi", *WAYS, show_lines=True)
    variants = [{"pack": options.rules, "cycles": way, "method": method} for way, method in WAYS.items()]
    for model in models:
        for k in range(1, options.k_multi + 1):
            found = options.measured(results, model, [{**v, "k_multi": k} for v in variants])
            cells = [f"{seconds(r)} s\n{size(r)}\n{cost(r)}" if "error" not in r else "failed" for r in found]
            table.add_row(model, str(k), *cells)
    return results.finish(table, [*CYCLES_NOTES, results.cost_kind(options.device)])


@_sweep("k-multi", ("pairs", "taso"), 3, 0, 120.0)
def k_multi(options: Sweep) -> int:
    """Pair rules as k_multi grows: cost, size and time. Beside them group rules alone, and both kinds without
    limit."""
    models = options.models or MODELS
    results = Results("k-multi", options.json_path, models, where=where_of(options.jobs, options.ray))
    columns = [*(f"k_multi {k}" for k in range(options.k_multi + 1)), "groups", "both, unlimited"]
    title = f"Rules {options.rules} by k_multi, and groups; {options.device}"
    table = new_table(title, "model", "input", *columns, show_lines=True)
    variants: list[Row] = [{"pack": options.rules, "k_multi": k} for k in range(options.k_multi + 1)]
    variants += [{"pack": "groups", "k_multi": 0}, {"pack": "both", "k_multi": None}]
    for model in models:
        found = options.measured(results, model, variants)
        before = next((f"{r['before']:.4f}" for r in found if "before" in r), "-")
        cells = [
            f"{cost(r)}\n{size(r)}\n{seconds(r)} + {r['seconds']['extract']:.2f} s"
            if "error" not in r
            else "failed"
            for r in found
        ]
        table.add_row(model, before, *cells)
    return results.finish(table, [*K_MULTI_NOTES, results.cost_kind(options.device)])
