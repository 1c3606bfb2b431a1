"""One measurement of a whole run, without its verification: explore a model with chosen rules, price, extract."""

from __future__ import annotations

import math
from typing import Any

from tensat_dl.bench.common import Row
from tensat_dl.bench.packs import graph_of, rules_of
from tensat_dl.run.options import Options
from tensat_dl.run.pipeline import optimize


def measure(
    model: str,
    pack: str,
    k_multi: int | None,
    device: str,
    max_nodes: int,
    explore_seconds: float,
    extract_seconds: float,
    method: str = "exact",
    **limits: Any,
) -> Row:
    """Sizes, seconds and costs. ``limits`` are further fields of `Options`."""
    graph, ops = graph_of(model)
    options = Options(
        device=device,
        max_nodes=max_nodes,
        k_multi=k_multi,
        time_limit=explore_seconds,
        extract=method,
        extract_time_limit=extract_seconds,
        verify=False,
        **limits,
    )
    result, _ = optimize(graph, ops, rules_of(pack), options)
    found = result.extraction
    iterations = result.iterations
    return {
        "model": model,
        "rules": pack,
        "k_multi": k_multi,
        **limits,
        "nodes": result.nodes,
        "classes": result.classes,
        "stop": result.stop,
        "explore_limit": explore_seconds,
        "iterations": len(iterations),
        "seconds": {
            "explore": result.times.explore,  # with the start of the engine's process and the rules' compilation
            "iterations": sum(i.seconds for i in iterations),
            "extract": result.times.extract,
        },
        "before": result.before.total,
        "after": result.after.total,
        "measured_share": result.measured_share,
        "status": found.status,
        "gap": found.gap if math.isfinite(found.gap) else None,
        "notes": list(result.notes),
    }
