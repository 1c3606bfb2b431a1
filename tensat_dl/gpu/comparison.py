"""Times several graphs as a whole on the GPU of this machine, the first being what the others are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from tensat_dl.core.graph import Graph
from tensat_dl.gpu.environment import GpuError
from tensat_dl.gpu.machine import FAILURES, Contender, said, this_machine
from tensat_dl.measure.side_by_side import STARTS, TimedRow
from tensat_dl.measure.statistics import latency, ratio_to_first
from tensat_dl.ops.semantics.types import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.weights import draw_values


@dataclass(frozen=True, slots=True)
class TimedGraph:
    """A graph, its operators, and by name the weights that are known: those of an ONNX model."""

    graph: Graph
    ops: OpTable
    weights: Mapping[str, Array]


def compare(entries: Sequence[TimedGraph], seed: int, progress: Callable[[int, int], None]) -> list[TimedRow]:
    """Times graphs, which tell by name their inputs and what weights are drawn. Raises `GpuError`, also where their
    outputs can't be compared, and `ProfileError`."""
    for i, entry in enumerate(entries[1:], 2):
        _same_outputs(entries[0].graph, entry.graph, i)
    machines = [this_machine(e.ops, _values(entries[0], e, seed)) for e in entries]
    rows: list[TimedRow] = []
    ready: dict[int, Contender] = {}
    want: list[torch.Tensor] | None = None
    for i, (machine, entry) in enumerate(zip(machines, entries, strict=True)):
        graph = entry.graph
        predicted = machine.model.price_graph(graph).total
        try:
            want = machine.reference(graph) if want is None else want
            contender = machine.contender(graph)
            error = max(contender.errors(want))
            peak = peak_bytes(contender)
        except (*FAILURES, ValueError) as e:
            rows.append(TimedRow(predicted, reason=said(e)))
            continue
        ready[i] = contender
        rows.append(TimedRow(predicted, error=error, kernels=contender.executor.chosen(), peak_bytes=peak))
    samples: list[Sequence[Sequence[float]]] = []
    for start in range(STARTS if ready else 0):
        progress(start, STARTS)
        samples.append(machines[0].times(list(ready.values())))
    for k, i in enumerate(ready):
        ratio = ratio_to_first(samples, k) if k and 0 in ready else None
        rows[i] = replace(rows[i], latency=latency(samples, k), ratio=ratio)
    return rows


def _same_outputs(first: Graph, graph: Graph, number: int) -> None:
    """Raises `GpuError` if a graph's outputs can't be compared, one by one, with those of the first one."""
    if len(graph.outputs) != len(first.outputs):
        names = [", ".join(name for name, _ in g.outputs) for g in (first, graph)]
        raise GpuError(
            f"the graphs have other outputs, so they can't be compared: the first one has {names[0]}, and graph "
            f"{number} has {names[1]}"
        )
    for (_, j), (name, i) in zip(first.outputs, graph.outputs, strict=True):
        wanted, found = first.nodes[j].type, graph.nodes[i].type
        if found.shape != wanted.shape:
            raise GpuError(
                f"the graphs can't be compared: output {name} of graph {number} is {found}, that of the first one "
                f"{wanted}"
            )


def _values(first: TimedGraph, entry: TimedGraph, seed: int) -> dict[str, Array]:
    """What a graph runs with: its own weights, and what is drawn for the first one. Raises `GpuError`."""
    try:
        return draw_values([first.graph, entry.graph], seed, {**first.weights, **entry.weights})
    except ValueError as e:
        raise GpuError(f"the graphs can't run with the same values: {e}") from None


def peak_bytes(contender: Contender) -> int:
    """The most memory that running a graph takes, its weights included; 0 on a CPU."""
    executor = contender.executor
    if executor.device.type != "cuda":
        return 0
    weights = sum(x.nbytes for x in executor.constants.values())
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    contender.run()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before + weights)
