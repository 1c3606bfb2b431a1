"""One model of ``tensat-dl bench gpu``: its graphs, and what they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensat_dl.bench.common import Row, path_of

#: What is made of a model: the graph as it is, by the paper's method, by ours, and with fusion.
GRAPHS = ("original", "paper", "ours", "fused")
#: How torch runs the original and ours: operator by operator, or compiled in two ways.
MODES = {"eager": None, "compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}


def prepare(model: str, folder: str, dtype: str, device: str, limit: float) -> Row:
    """Writes a model's graphs to ``MODEL.GRAPH.tsr`` in a folder, in another element type if it is not f32."""
    from tensat_dl.bench.packs import rules_of
    from tensat_dl.cli.common import choose_graph
    from tensat_dl.cli.models import Opened
    from tensat_dl.explore.types import Limits
    from tensat_dl.extract.types import Limits as ExtractLimits
    from tensat_dl.files import write
    from tensat_dl.lang.program import load_program
    from tensat_dl.lang.source import Source
    from tensat_dl.pipeline import Options, optimize

    path = path_of(model)
    text = path.read_text(encoding="utf-8").replace("f32[", f"{dtype}[")
    program = load_program(str(path), source=Source(str(path), text))
    graph = choose_graph(program, None)
    opened = Opened(program, graph)
    extraction = ExtractLimits(seconds=limit)
    paper = Limits(k_multi=1, cycles="efficient", seconds=limit)
    ways = {
        "paper": (rules_of("taso"), Options(device, paper, "ilp-none", extraction, verify=False)),
        "ours": (program.rules, Options(device, Limits(seconds=limit), extract_limits=extraction)),
        "fused": (
            program.rules,
            Options(device, Limits(seconds=limit), extract_limits=extraction, fuse=True),
        ),
    }
    write(str(file_of(folder, model, "original")), opened.text(graph))
    costs = {}
    for name, (rules, options) in ways.items():
        result, _ = optimize(graph, program.ops, rules, options)
        made = opened.with_operators(result.declared)
        write(str(file_of(folder, model, name)), made.text(result.after.graph))
        costs[name] = result.after.total
        costs["original"] = result.before.total
    return {"model": model, "costs": costs}


def file_of(folder: str, model: str, name: str) -> Path:
    return Path(folder) / f"{Path(model).stem}.{name}.tsr"


def time_model(model: str, folder: str, modes: list[str], seed: int) -> Row:
    """What each graph of a model takes on the GPU of this machine, all in turn."""
    import torch

    from tensat_dl.gpu.comparison import STARTS, peak_bytes
    from tensat_dl.gpu.machine import FAILURES, Runs, largest_error, said, this_machine
    from tensat_dl.gpu.torch_device import running
    from tensat_dl.lang.elaborate import elaborate
    from tensat_dl.lang.program import load_program
    from tensat_dl.measure.statistics import latency, ratio_to_first
    from tensat_dl.verify.weights import draw_values

    loaded = {}
    for name in GRAPHS:
        program = load_program(str(file_of(folder, model, name)))
        (item,) = program.graphs.values()
        loaded[name] = (elaborate(item, program.ops, program.blocks), program.ops)
    values = draw_values([loaded["original"][0]], seed, {})
    machine = this_machine(loaded["original"][1], values)
    want = machine.reference(loaded["original"][0])
    cells: dict[str, dict[str, Any]] = {}
    ready: dict[str, Runs] = {}

    def attempt(name: str, make: Any) -> None:
        """Whatever goes wrong with one way of running a graph is its cell."""
        try:
            contender = make()
            error = largest_error(running(machine.target, contender.run).outputs, want)
        except (*FAILURES, ValueError, torch.OutOfMemoryError) as e:
            cells[name] = {"error": said(e)}
            return
        cells[name] = {"max_rel_error": error}
        ready[name] = contender

    for name, (graph, ops) in loaded.items():
        here = this_machine(ops, values)
        predicted = here.model.price_graph(graph)
        attempt(name, lambda here=here, graph=graph: here.contender(graph))
        cells[name] |= {"predicted_ms": predicted.total}
        if name in ready:
            cells[name] |= {"peak_bytes": peak_bytes(ready[name])}  # type: ignore[arg-type]
    for name in ("original", "ours"):
        for mode in modes:
            attempt(
                f"{name}, {mode}",
                lambda name=name, mode=mode: Compiled.of(*loaded[name], values, machine.target, MODES[mode]),
            )
    samples = [machine.times(list(ready.values())) for _ in range(STARTS)]
    for k, name in enumerate(ready):
        found, ratio = latency(samples, k), ratio_to_first(samples, k)
        cells[name] |= {
            "median_ms": found.median_ms,
            "spread_ms": found.spread_ms,
            "ratio": {"median": ratio.mid, "low": ratio.low, "high": ratio.high},
        }
    where = machine.environment
    return {
        "model": model,
        "cells": cells,
        "hardware": dict(where.hardware),
        "versions": dict(where.versions),
        "profile": machine.model.profile is not None,
    }


class Compiled:
    """A graph as torch runs it, with f32 as precise as the kernels that it is compared with."""

    def __init__(self, call: Any, inputs: list[Any]) -> None:
        self.call, self.inputs = call, inputs

    @classmethod
    def of(cls, graph: Any, ops: Any, values: Any, target: Any, mode: str | None) -> Compiled:
        import torch

        from tensat_dl.gpu.executor import input_tensors
        from tensat_dl.gpu.torch_module import TorchGraph

        module = TorchGraph(graph, ops, values, target)
        return cls(
            module if mode is None else torch.compile(module, mode=mode), input_tensors(graph, values, target)
        )

    def run(self) -> list[Any]:
        import torch

        from tensat_dl.resources import kernels

        with torch.no_grad(), kernels("matmul").rounding(tf32=False):
            found: list[Any] = self.call(*self.inputs)
        return found
