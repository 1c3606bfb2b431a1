"""Measurements of ``tensat-dl bench extraction``: making an e-graph once, and one method that extracts from it."""

from __future__ import annotations

import pickle
from pathlib import Path

from tensat_dl.bench.common import Row
from tensat_dl.bench.packs import graph_of, rules_of
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.egraph_json import loads
from tensat_dl.cost import CostModel
from tensat_dl.engine.explore import exploring
from tensat_dl.engine.types import Cycles, Limits
from tensat_dl.extract.api import extract
from tensat_dl.extract.types import CyclicEGraphError, ExtractLimits
from tensat_dl.lang.load import read_source


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
    """Explores a model, prices the e-graph and keeps it in a file. Its size, and the milliseconds of the input."""
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
    """An e-graph in egraph-serialize JSON or one that `explored` has kept, and how many of its e-classes are older
    than what multi-pattern rules made (0: not known). Raises `TsrError` and `EGraphFormatError`."""
    if path.endswith(".json"):
        return loads(read_source(path).text), 0
    kept: tuple[EGraph, int] = pickle.loads(Path(path).read_bytes())
    return kept


def extracted(path: str, method: str, seconds: float) -> Row:
    """What a method finds in so many seconds, and how long it takes. Reading the e-graph is not part of that."""
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
