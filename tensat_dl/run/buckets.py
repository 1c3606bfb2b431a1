"""Models for ranges of sizes: where sizes of a dimension want different graphs, each range gets its own.

After the answer for all sizes together, the best graph for each size alone is looked for. A graph serves a size if it
is nearly as fast there as the fastest of all these graphs. Neighbouring sizes that one graph serves are a bucket; two
buckets meet where their graphs are equally fast.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import fsum, isqrt, log
from statistics import geometric_mean

from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.cost import CostModel
from tensat_dl.measure.machine import TimedGraph
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.model_files import failed
from tensat_dl.onnx.typical_sizes import at_sizes
from tensat_dl.run.model import Model
from tensat_dl.run.options import Options
from tensat_dl.run.refused import refusal
from tensat_dl.run.result import SERVES, Bucket, Buckets, Result
from tensat_dl.sizes.dim_sizes import mixed_dim

#: Sizes between two buckets at which their graphs are compared, to find where they meet.
PROBES = 4

#: The latencies of graphs, at the size of the dimension that is given; None where they can't be known.
Latencies = Callable[[int], Sequence[float] | None]
#: The answer to a model that is for one size.
Alone = Callable[[Model], Result]


def find_buckets(model: Model, whole: Result, alone: Alone, progress: Progress) -> Buckets:
    """The buckets of a model, given the answer for all sizes and how to find one for a size ``alone``. Raises
    ValueError if no dimension has several sizes, `TsrError` if the model can't be timed at all of them, what
    ``alone`` raises, and KeyboardInterrupt after Ctrl-C."""
    name, imported = mixed_dim(model.dims), model.onnx
    assert imported is not None
    results, left_out = _answers(model, imported, name, whole, alone)
    said = imported.said[name]
    with _latencies(model, imported, name, results, whole.options, progress) as latencies:
        first, *graphs = _table(model, imported, name, results, latencies)
        groups = split(graphs)
        ends = []
        for (_, stop, g), (_, _, h) in pairwise(groups):

            def faster(n: int, g: int = g, h: int = h) -> bool | None:
                found = latencies(n)
                return None if found is None else found[1 + h] < found[1 + g]

            ends.append(meet(said.sizes[stop - 1], said.sizes[stop], faster))
    lows, highs = [said.low, *ends], [*(n - 1 for n in ends), said.high]
    parts = []
    for (start, stop, g), low, high in zip(groups, lows, highs, strict=True):
        ratios = {said.sizes[i]: graphs[g][i] / first[i] for i in range(start, stop)}
        parts.append(Bucket(name, results[g], low, high, ratios))
    one = min(geometric_mean(row) for row in graphs)
    several = geometric_mean([graphs[g][i] for start, stop, g in groups for i in range(start, stop)])
    return Buckets(tuple(parts), one / several, tuple(left_out))


def _answers(
    model: Model, imported: Imported, name: str, whole: Result, alone: Alone
) -> tuple[list[Result], list[str]]:
    """The answer for all sizes and those for each alone, each graph once; and what was left out."""
    results, left_out = [whole], []
    for dims, known in imported.mix:
        found = alone(replace(model, onnx=replace(imported, mix=((dims, known),))))
        if found.interrupted:
            raise KeyboardInterrupt
        if refusal(found, model.program.own_rules) is not None:
            left_out.append(f"no answer for {dims[name]} alone may be used")
        else:
            results.append(found)
    different: dict[Hashable, Result] = {}
    for r in results:
        different.setdefault(_written(r.after.graph), r)
    return list(different.values()), left_out


def _table(
    model: Model, imported: Imported, name: str, results: Sequence[Result], latencies: Latencies
) -> list[list[float]]:
    """The latencies of the model's graph and of each answer, at each size that was given."""
    at = imported.said[name].sizes
    rows = [row for n in at if (row := latencies(n)) is not None]
    if len(rows) < len(at):
        hint = "it has to run at each of them"
        raise failed(imported.path, f"it can't be timed at all sizes of {name} that were given", hint)
    first, *graphs = map(list, zip(*rows, strict=True))
    # A model that is written as it was read takes as long as it did, whatever the noise of timing it twice.
    same = _written(model.graph)
    timed = zip(results, graphs, strict=True)
    return [first, *(first if _written(r.after.graph) == same else row for r, row in timed)]


def _written(graph: Graph) -> Hashable:
    """What tells graphs apart in a file."""
    return graph.nodes, graph.outputs


def split(table: Sequence[Sequence[float]]) -> list[tuple[int, int, int]]:
    """Groups of neighbouring sizes, from a position to before another, each with the graph that serves it: as few as
    possible, and of these the fastest. ``table`` has the latency of each graph at each size."""
    count = len(table[0])
    best = [min(row[i] for row in table) for i in range(count)]
    found: list[tuple[int, float, list[tuple[int, int, int]]]] = [(0, 0.0, [])]
    for stop in range(1, count + 1):
        choices = []
        for start in range(stop):
            for g, row in enumerate(table):
                if all(row[i] <= SERVES * best[i] for i in range(start, stop)):
                    many, cost, before = found[start]
                    more = fsum(log(row[i] / best[i]) for i in range(start, stop))
                    choices.append((many + 1, cost + more, [*before, (start, stop, g)]))
        found.append(min(choices, key=lambda choice: choice[:2]))
    return found[-1][2]


def meet(low: int, high: int, faster: Callable[[int], bool | None]) -> int:
    """The smallest size between two at which the graph for the larger ones is ``faster``, as far as a few sizes
    tell."""
    for _ in range(PROBES):
        middle = max(low + 1, isqrt(low * high))
        if middle >= high or (found := faster(middle)) is None:
            break
        low, high = (low, middle) if found else (middle, high)
    return high


@contextmanager
def _latencies(
    model: Model,
    imported: Imported,
    name: str,
    results: Sequence[Result],
    options: Options,
    progress: Progress,
) -> Iterator[Latencies]:
    """The latencies of the model's graph and of the answers, timed if graphs are measured, else by their prices."""
    graphs = [r.after.graph for r in results]
    if not options.measure:
        costs = CostModel.of(model.ops, options.target, options.threads)

        def priced(n: int) -> list[float]:
            there = replace(costs, sizes=(imported.resized(at_sizes(imported.dims, {name: n})),))
            return [there.price_graph(g).total for g in (model.graph, *graphs)]

        yield priced
        return
    from tensat_dl.measure.cpu import in_turn_at

    entry = TimedGraph(model.graph, model.ops, imported)
    with in_turn_at(entry, graphs, options.threads, options.seed, progress.measuring) as timed:
        yield lambda n: timed(at_sizes(imported.dims, {name: n}))
