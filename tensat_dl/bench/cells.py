"""Measurements of the engine and of extraction, each in a process of its own.

Benchmarks choose the rules, in place of the pack that an example imports.
"""

from __future__ import annotations

import math
import pickle
from functools import cache
from pathlib import Path
from typing import Any

from tensat_dl import resources
from tensat_dl.bench.common import Row, path_of
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.egraph_json import loads
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Cycles, Limits
from tensat_dl.engine.explore import exploring
from tensat_dl.extract.api import extract
from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.extract.extraction import CyclicEGraphError
from tensat_dl.lang.load import read_source
from tensat_dl.lang.program import load_program
from tensat_dl.ops.table import OpTable
from tensat_dl.run.beginning import Setup
from tensat_dl.run.options import Options
from tensat_dl.run.reading import choose_graph
from tensat_dl.run.rounds import one_round

#: "groups" is "standard"; "pairs" has the paper's multi-pattern rules in place of group rules, "both" has both.
PACKS = ("groups", "pairs", "both", "taso")


def graph_of(model: str) -> tuple[Graph, OpTable]:
    """The only graph of a model's file, and its operators. Raises `TsrError`."""
    program = load_program(str(path_of(model)))
    return choose_graph(program, None), program.ops


@cache
def rules_of(pack: str) -> tuple[RewriteRule, ...]:
    """The rules of ``pack``, one of `PACKS`."""
    assert pack in PACKS, pack
    if pack == "taso":
        return _pack("taso")
    standard = _pack("standard")
    if pack == "groups":
        return standard
    pairs = tuple(r for r in _pack("pairs") if r.kind == "multi")
    if pack == "both":
        return (*standard, *pairs)
    groups = {r.name for r in _pack("groups")} - {r.name for r in _pack("pairs")}
    return (*(r for r in standard if r.name not in groups), *pairs)


def _pack(name: str) -> tuple[RewriteRule, ...]:
    return load_program(str(resources.rules() / f"{name}.tsr")).rules


def run(
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
    """One round, without verification: sizes, seconds and costs. ``limits`` are further fields of `Options`."""
    graph, ops = graph_of(model)
    options = Options(
        device=device,
        max_nodes=max_nodes,
        k_multi=k_multi,
        time_limit=explore_seconds,
        extract=method,
        extract_time_limit=extract_seconds,
        **limits,
    )
    progress = Progress()
    setup = Setup.of(options, graph, rules_of(pack), ops)
    found = one_round(graph, rules_of(pack), setup, progress)
    seconds, iterations = progress.seconds(), found.exploration.iterations
    before, after = (setup.model.price_graph(g) for g in (graph, found.rebuilt(found.extraction)[0]))
    return {
        "model": model,
        "rules": pack,
        "k_multi": k_multi,
        **limits,
        "nodes": found.egraph.num_nodes,
        "classes": found.egraph.num_classes,
        "stop": found.exploration.stop,
        "explore_limit": explore_seconds,
        "iterations": len(iterations),
        "seconds": {
            "explore": seconds[
                "explore"
            ],  # with the start of the engine's process and the rules' compilation
            "iterations": sum(i.seconds for i in iterations),
            "extract": seconds["extract"],
        },
        "before": before.total,
        "after": min(before.total, after.total),
        "measured_share": after.measured_share,
        "status": found.extraction.status,
        "gap": found.extraction.gap if math.isfinite(found.extraction.gap) else None,
        "notes": list(found.exploration.notes),
    }


def explored(
    model: str,
    pack: str,
    k_multi: int | None,
    cycles: Cycles,
    device: str,
    max_nodes: int,
    seconds: float,
    path: str,
) -> Row:
    """Explores a model, prices the e-graph and saves it. Returns its size, and the input's cost in milliseconds."""
    graph, ops = graph_of(model)
    costs = CostModel.of(ops, device)
    limits = Limits(nodes=max_nodes, k_multi=k_multi, seconds=seconds, cycles=cycles)
    with exploring(graph, ops, rules_of(pack), limits, estimate=costs.estimate) as worker:
        found = worker.run()
    egraph, measured = costs.price(found.egraph)
    with open(path, "wb") as file:
        pickle.dump((egraph, found.early), file, protocol=pickle.HIGHEST_PROTOCOL)
    return {
        "nodes": egraph.num_nodes,
        "classes": egraph.num_classes,
        "stop": found.stop,
        "explore_limit": seconds,
        "explore_seconds": sum(i.seconds for i in found.iterations),
        "before": costs.price_graph(graph).total,
        "measured_share": float(measured.mean()),
    }


def load(path: str) -> tuple[EGraph, int]:
    """Reads an e-graph, from egraph-serialize JSON or a file of `explored`; and the number of e-classes that are
    older than the results of multi-pattern rules (0: not known). Raises `TsrError` and `EGraphFormatError`."""
    if path.endswith(".json"):
        return loads(read_source(path).text), 0
    kept: tuple[EGraph, int] = pickle.loads(Path(path).read_bytes())
    return kept


def extracted(path: str, method: str, seconds: float) -> Row:
    """The answer of a method within a time limit, and its seconds, without reading the e-graph."""
    egraph, early = load(path)
    try:
        found = extract(egraph, method, ExtractLimits(seconds=seconds), early=early)
    except CyclicEGraphError:
        return {"status": "cyclic"}
    return {
        "status": found.status,
        "cost": found.cost,
        "bound": found.bound,
        "gap": found.gap,
        "seconds": found.seconds,
    }
