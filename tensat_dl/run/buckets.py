"""Models for ranges of sizes: where sizes of a dimension want different graphs, each range gets its own.

After the answer for all sizes together, the best graph for each size alone is looked for. A graph serves a size if it
is nearly as fast there as the fastest of all these graphs. Neighbouring sizes that one graph serves are a bucket; two
buckets meet where their graphs are equally fast.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import fsum, isqrt, log
from statistics import geometric_mean
from typing import Any

from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.cost import CostModel
from tensat_dl.measure.machine import TimedGraph
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.model_files import failed
from tensat_dl.onnx.typical_sizes import at_sizes
from tensat_dl.run.model import Model
from tensat_dl.run.of_model import optimize_model
from tensat_dl.run.options import Options
from tensat_dl.run.refused import refusal
from tensat_dl.run.result import Result
from tensat_dl.sizes.dim_sizes import DimSizes, mixed_dim

#: A graph serves a size if it takes at most so many times as long as the fastest one there.
SERVES = 1.05
#: Sizes between two buckets at which their graphs are compared, to find where they meet.
PROBES = 4

#: The latencies of graphs, at the size of the dimension that is given; None where they can't be known.
Latencies = Callable[[int], Sequence[float] | None]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A range of sizes of a dimension, by its name, with the answer for it, and the answer's latency over the
    original's at some of the sizes."""

    name: str
    result: Result
    low: int
    high: int | None
    ratios: Mapping[int, float]

    @property
    def range(self) -> str:
        return f"{self.low}-{'up' if self.high is None else self.high}"

    def of(self, imported: Imported) -> Imported:
        """The model, into which its answer is written: compared in the range alone."""
        sizes = tuple(self.ratios)
        said = {**imported.said, self.name: DimSizes(sizes, self.low, self.high)}
        dims = at_sizes(imported.dims, {self.name: sizes[len(sizes) // 2]})
        return replace(imported, said=said, dims=dims, mix=())


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a dimension, and how many times as fast they are as the best graph for all sizes: the geometric
    mean. One bucket: there is a graph that serves all sizes. ``left_out`` says what was not regarded."""

    parts: tuple[Bucket, ...]
    gain: float
    left_out: tuple[str, ...] = ()

    def summary(self) -> str:
        """As in ``seq = 1-48: 1.31x; 49-512: 1.12x; 1.08x as fast as one graph for all``."""
        name = self.parts[0].name
        if len(self.parts) == 1:
            sizes = ", ".join(map(str, self.parts[0].ratios))
            text = (
                f"one graph is enough: at {name} = {sizes} it is within {SERVES - 1:.0%} of the best for each"
            )
        else:
            each = "; ".join(f"{b.range}: {1 / geometric_mean(b.ratios.values()):.2f}x" for b in self.parts)
            text = f"{name} = {each}; together {self.gain:.2f}x as fast as the best graph for all"
        return "; ".join([text, *self.left_out])

    def to_json(self) -> dict[str, Any]:
        parts = [
            {
                "dim": b.name,
                "low": b.low,
                "high": b.high,
                "ratios": {str(n): r for n, r in b.ratios.items()},
            }
            for b in self.parts
        ]
        return {"parts": parts, "gain": self.gain}


def find_buckets(model: Model, whole: Result, progress: Progress) -> Buckets:
    """The buckets of a model, given the answer for all sizes. Raises ValueError if no dimension has several sizes,
    `TsrError` if the model can't be timed at all of them, what `optimize_model` raises, and KeyboardInterrupt after
    Ctrl-C."""
    name, imported, options = mixed_dim(model.dims), model.onnx, replace(whole.options, buckets=False)
    assert imported is not None
    results, left_out = [whole], []
    for dims, known in imported.mix:
        alone = replace(model, onnx=replace(imported, mix=((dims, known),)))
        found, _ = optimize_model(alone, options, progress, rules=whole.rules)
        if found.interrupted:
            raise KeyboardInterrupt
        if refusal(found, model.program.own_rules) is not None:
            left_out.append(f"no answer for {dims[name]} alone may be used")
        else:
            results.append(found)
    different: dict[Hashable, Result] = {}
    for r in results:
        different.setdefault((r.after.graph.nodes, r.after.graph.outputs), r)
    results = list(different.values())
    at = imported.said[name].sizes
    with _latencies(model, imported, name, [r.after.graph for r in results], options, progress) as latencies:
        rows = [row for n in at if (row := latencies(n)) is not None]
        if len(rows) < len(at):
            hint = "it has to run at each of them"
            raise failed(imported.path, f"it can't be timed at all sizes of {name} that were given", hint)
        first, *graphs = map(list, zip(*rows, strict=True))
        # A model that is written as it was read takes as long as it did, whatever the noise of timing it twice.
        same = (model.graph.nodes, model.graph.outputs)
        graphs = [
            first if (r.after.graph.nodes, r.after.graph.outputs) == same else row
            for r, row in zip(results, graphs, strict=True)
        ]
        groups = split(graphs)
        ends = []
        for (_, stop, g), (_, _, h) in pairwise(groups):

            def faster(n: int, g: int = g, h: int = h) -> bool | None:
                found = latencies(n)
                return None if found is None else found[1 + h] < found[1 + g]

            ends.append(meet(at[stop - 1], at[stop], faster))
    said = imported.said[name]
    parts = tuple(
        Bucket(
            name,
            results[g],
            low,
            high,
            {n: graphs[g][i] / first[i] for i, n in enumerate(at) if start <= i < stop},
        )
        for (start, stop, g), low, high in zip(
            groups, [said.low, *ends], [*(n - 1 for n in ends), said.high], strict=True
        )
    )
    one = min(geometric_mean(row) for row in graphs)
    several = geometric_mean([graphs[g][i] for start, stop, g in groups for i in range(start, stop)])
    return Buckets(parts, one / several, tuple(left_out))


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
    model: Model, imported: Imported, name: str, graphs: Sequence[Graph], options: Options, progress: Progress
) -> Iterator[Latencies]:
    """The latencies of the model's graph and of others, timed if graphs are measured, else by their prices."""
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
