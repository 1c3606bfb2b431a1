"""The measurements of ``tensat-dl bench paper``, each in a process of its own."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path

from tensat_dl.baselines.walk import Walk
from tensat_dl.bench.cells import graph_of, rules_of
from tensat_dl.bench.common import Row
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.extract.rebuild import rules_used
from tensat_dl.measure.contest import TimedRow
from tensat_dl.measure.cpu import compare
from tensat_dl.measure.machine import TimedGraph
from tensat_dl.ops.table import OpTable
from tensat_dl.run.beginning import Setup, beginning
from tensat_dl.run.machines import machine_of
from tensat_dl.run.options import Options, Search
from tensat_dl.run.rounds import Searched, search
from tensat_dl.run.sequential import walked

#: How many times as long as alone the parts of a search may take that are limited by the clock: other work may be
#: done beside them.
SLOWER = 4


def processor() -> float:
    """Seconds of a processor that this process and its children have used: what they would take alone, where the
    machine has other work to do. Where the system does not tell of children that run, seconds of the clock."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    try:
        for task in Path("/proc/self/task").iterdir():
            for child in (task / "children").read_text().split():
                with suppress(OSError):
                    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                    total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.perf_counter()
    return total


class Watching(Progress):
    """Remembers when each answer was found that was cheaper than all before, and what the time until then went
    into."""

    def __init__(self) -> None:
        super().__init__()
        self.started = processor()
        self._phase, self._since = "", self.started
        self.spent: dict[str, float] = {}  #: processor seconds by phase
        self.start: float | None = None  #: until the engine first had the input, with all rules compiled
        self._explored_in_start = 0.0
        self.gains: list[tuple[float, float, Row]] = []

    def phase(self, name: str) -> None:
        super().phase(name)
        self.end(name)

    def end(self, next: str = "") -> None:
        """Ends a phase."""
        now = processor()
        self.spent[self._phase] = self.spent.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = next, now

    def exploring(self, iteration: int, nodes: int, classes: int) -> None:
        if self.start is None:
            self.end(self._phase)
            self.start, self._explored_in_start = self._since - self.started, self.spent[self._phase]

    def extracting(self, incumbent: float, bound: float) -> None:
        if isfinite(incumbent) and (not self.gains or incumbent < self.gains[-1][1] * (1 - 1e-9)):
            self.end(self._phase)
            spent = {
                "start": self.start or 0.0,
                "explore": self.spent.get("explore", 0.0) - self._explored_in_start,
                "extract": self.spent.get("extract", 0.0),
            }
            self.gains.append((self._since - self.started, incumbent, spent))


def ours(model: str, pack: str, device: str, k_multi: int | None, limit: float) -> Row:
    """Our search, all rounds: with the engine's start, without reading files."""
    graph, ops = graph_of(model)
    most = SLOWER * limit
    options = Options(device=device, k_multi=k_multi, time_limit=most, extract_time_limit=most)
    return _ours(graph, rules_of(pack), Setup.of(options, graph, rules_of(pack), ops))


def _saturated(graph: Graph, rules: Sequence[RewriteRule], setup: Setup, progress: Progress) -> Searched:
    with beginning(graph, rules, setup, progress) as begun:
        return search(begun, setup, progress)


def _ours(graph: Graph, rules: Sequence[RewriteRule], setup: Setup) -> Row:
    clock, progress = time.perf_counter(), Watching()
    found = _saturated(graph, rules, setup, progress)
    wall, seconds = time.perf_counter() - clock, processor() - progress.started
    progress.end()
    after = found.search.model.price_graph(found.answer.graph)
    before = found.search.model.price_graph(graph)
    gained = [gain for gain in progress.gains if gain[1] < before.total]
    gains = [(0.0, before.total), *((s, c) for s, c, _ in gained)]
    if after.total < gains[-1][1] * (1 - 1e-9):
        gains.append((seconds, after.total))
    return {
        "before": before.total,
        "after": after.total,
        "measured_share": after.measured_share,
        "seconds": seconds,
        "wall": wall,
        "explore": progress.spent.get("explore", 0.0),
        "extract": progress.spent.get("extract", 0.0),
        "gains": [[s, c] for s, c in gains],
        "spent": [spent for _, _, spent in gained],  # until each of the gains but the first
        "nodes": max(r.egraph.num_nodes for r in found.rounds),
        "rounds": len(found.stops),
        "status": found.last.extraction.status,
        "stop": found.last.exploration.stop,
        "used": rules_used(found.answer.origins),
        "operators": dict(sorted(found.answer.graph.count().items())),
    }


def baseline(
    model: str,
    pack: str,
    device: str,
    search: Search,
    iterations: int,
    limit: float,
    alpha: float = 1.0,
    seed: int = 0,
) -> Row:
    """A search graph by graph."""
    graph, ops = graph_of(model)
    options = Options(
        device=device,
        search=search,
        iterations=iterations,
        alpha=alpha,
        time_limit=limit,
        seed=seed,
    )
    setup = Setup.of(options, graph, rules_of(pack), ops)
    started = time.perf_counter()
    walk = walked(graph, rules_of(pack), setup, options, Progress(), clock=time.process_time)
    return {**_walk(graph, walk), "wall": time.perf_counter() - started}


def _walk(graph: Graph, walk: Walk) -> Row:
    model = walk.costs.model
    before, after = model.price_graph(graph), model.price_graph(walk.store.graph(walk.outputs))
    return {
        "before": before.total,
        "after": after.total,
        "measured_share": after.measured_share,
        "seconds": walk.seconds,
        "best_seconds": walk.gains[-1].seconds if walk.gains else 0.0,
        "gains": [[0.0, before.total], *([g.seconds, g.cost] for g in walk.gains)],
        "expanded": walk.expanded,
        "tried": walk.tried,
        "kept": walk.kept,
        "stop": walk.stop,
        "steps": [sub.rule.name for sub in walk.best.chain()],
    }


def on_cpu(model: str, pack: str, iterations: int, limit: float) -> Row:
    """Both searches with costs that are measured in ONNX Runtime, and the original, TASO's and our graph in turn."""
    graph, ops = graph_of(model)
    most = SLOWER * limit
    options = Options(device="cpu", measure=True, time_limit=most, extract_time_limit=most)
    machine = machine_of(options, graph, ops, None)
    setup = Setup.of(options, graph, rules_of(pack), ops, machine)
    found = _saturated(graph, rules_of(pack), setup, Progress())
    walking = Options(
        device="cpu", measure=True, search="backtracking", iterations=iterations, time_limit=limit
    )
    # The operators that ours has measured are in the profile by now, so both have the same costs.
    walk = walked(
        graph,
        rules_of(pack),
        Setup.of(walking, graph, rules_of(pack), ops, machine),
        walking,
        Progress(),
        clock=time.process_time,
    )
    model_after = walk.costs.model
    graphs = {
        "original": graph,
        "backtracking": walk.store.graph(walk.outputs),
        "ours": found.answer.graph,
    }
    rows = timed(graphs, ops)
    return {
        "graphs": {
            name: {
                "predicted": model_after.price_graph(g).total,
                "measured_share": model_after.price_graph(g).measured_share,
                **_timed(rows[name]),
            }
            for name, g in graphs.items()
        },
        "backtracking": _walk(graph, walk),
        "hardware": {} if machine is None else dict(machine.environment.hardware),  # type: ignore[attr-defined]
    }


def timed(graphs: dict[str, Graph], ops: OpTable) -> dict[str, TimedRow]:
    """Whole graphs in turn, in ONNX Runtime on one thread. Equal graphs are timed once."""
    different: dict[tuple[object, ...], str] = {}
    for name, g in graphs.items():
        different.setdefault((g.nodes, g.outputs), name)
    entries = [TimedGraph(graphs[name], ops) for name in different.values()]
    rows = compare(entries, 1, 0, lambda done, total: None)
    by_name = dict(zip(different.values(), rows, strict=True))
    return {name: by_name[different[g.nodes, g.outputs]] for name, g in graphs.items()}


def _timed(row: TimedRow) -> Row:
    r = row.ratio
    return {
        "ms": None if row.latency is None else row.latency.median_ms,
        "ratio": None if r is None else [r.low, r.mid, r.high],
        "reason": row.reason,
    }
