"""One model of ``tensat-dl bench gpu``: its graphs, and their latencies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensat_dl.bench.common import Row, path_of

#: Graphs of a model: the original, and the answers of the paper's method, of ours, and of ours with fusion.
GRAPHS = ("original", "paper", "ours", "fused")
#: How torch runs the original and ours: operator by operator, or compiled in two ways.
MODES = {"eager": None, "compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}
#: A batch is the first dimension of inputs where that is 1.
_BATCH = re.compile(r"(\binput\s+[^:\s]+\s*:\s*\w+\[)1\b")


class NoBatch(ValueError):
    """A model without a dimension for batches."""


def prepare(model: str, folder: str, dtype: str, batch: int, device: str, limit: float) -> Row:
    """Writes a model's graphs, with element type ``dtype``, to ``MODEL.GRAPH.tsr`` in a folder, and the operators to
    measure for them to ``MODEL.sigs.json``."""
    from tensat_dl.bench.cells import rules_of
    from tensat_dl.core.diagnostics import Source
    from tensat_dl.cost import CostModel, load_device
    from tensat_dl.cost.application import application, dumps
    from tensat_dl.files import write
    from tensat_dl.lang.program import load_program
    from tensat_dl.run.model import Model
    from tensat_dl.run.options import Options
    from tensat_dl.run.pipeline import optimize
    from tensat_dl.run.reading import choose_graph

    path = path_of(model)
    text = variant(path.read_text(encoding="utf-8"), dtype, batch)
    program = load_program(str(path), source=Source(str(path), text))
    graph = choose_graph(program, None)
    opened = Model(program, graph)
    ours = Options(device=device, time_limit=limit, extract_time_limit=limit)
    paper = replace(ours, cycles="efficient", extract="ilp-none", verify=False)
    ways = {
        "paper": (rules_of("taso"), paper),
        "ours": (program.rules, ours),
        "fused": (program.rules, replace(ours, fuse=True)),
    }
    write(str(file_of(folder, model, "original")), opened.text(graph))
    costs = {}
    answers = []
    for name, (rules, options) in ways.items():
        result, egraphs = optimize(graph, program.ops, rules, options)
        made = opened.with_operators(result.declared)
        write(str(file_of(folder, model, name)), made.text(result.after.graph))
        answers.append(result.after.graph)
        costs[name] = result.after.total
        costs["original"] = result.before.total
    prices = CostModel(made.ops, load_device(device))
    wanted = dict.fromkeys(s for e in egraphs for s in prices.unknown(e, answers))
    write(
        str(Path(folder) / f"{Path(model).stem}.sigs.json"), dumps(application(made.ops, s) for s in wanted)
    )
    return {"model": model, "costs": costs}


def variant(text: str, dtype: str, batch: int) -> str:
    """A model's text with other element types, and with batches of another size. Raises `NoBatch`."""
    text = text.replace("f32[", f"{dtype}[")
    if batch == 1:
        return text
    text, count = _BATCH.subn(rf"\g<1>{batch}", text)
    if not count:
        raise NoBatch("no input has a first dimension of 1, which the batch would replace")
    return text


def file_of(folder: str, model: str, name: str) -> Path:
    return Path(folder) / f"{Path(model).stem}.{name}.tsr"


def circumstances() -> dict[str, str]:
    """The GPU and its profile, on which the results of all models depend, each as a short key. Raises `GpuError`,
    `ProfileError`."""
    from tensat_dl.gpu.this_gpu import this_gpu, with_profile

    _, profile = with_profile()
    return {"gpu": this_gpu().environment.key, "profile": "" if profile is None else profile.key}


def digest(folder: str, model: str) -> str:
    """The key of a model's graphs."""
    texts = b"".join(file_of(folder, model, name).read_bytes() for name in GRAPHS)
    return hashlib.sha256(texts).hexdigest()[:8]


def time_graphs(model: str, folder: str, eager: bool, seed: int) -> Row:
    """The latencies of a model's graphs on the GPU of this machine and, with ``eager``, of the original and ours by
    torch, operator by operator; all in turn."""
    from tensat_dl.gpu.gpu_machine import peak_bytes, this_machine

    turns = Turns(model, folder, seed)
    for name in GRAPHS:
        graph, ops = turns.loaded[name]
        here = this_machine(ops, turns.values, tf32=False)
        ran = turns.attempt(name, lambda here=here, graph=graph: here.contender(graph))  # type: ignore[misc]
        turns.cells[name] |= {"predicted_ms": here.model.price_graph(graph).total}
        if ran:
            turns.cells[name] |= {"peak_bytes": peak_bytes(turns.ready[name])}
    for name in ("original", "ours") if eager else ():
        turns.attempt(f"{name}, eager", lambda name=name: turns.by_torch(name, "eager"))  # type: ignore[misc]
    where = turns.machine.environment
    return {
        "cells": turns.timed(),
        "hardware": dict(where.hardware),
        "versions": dict(where.versions),
        "profile": turns.machine.model.profile is not None,
    }


def time_compiled(model: str, folder: str, mode: str, seed: int) -> Row:
    """The latencies of the original and ours, compiled by torch in one of its modes, in turn with the original."""
    turns = Turns(model, folder, seed)
    turns.attempt("original", lambda: turns.machine.contender(turns.loaded["original"][0]))
    for name in ("original", "ours"):
        turns.attempt(f"{name}, {mode}", lambda name=name: turns.by_torch(name, mode))  # type: ignore[misc]
    cells = turns.timed()
    del cells["original"]  # it has been timed before, with other things beside it
    return {"cells": cells}


class Turns:
    """Ways of running a model's graphs, which take turns on the GPU. ``cells`` has the results of each."""

    def __init__(self, model: str, folder: str, seed: int) -> None:
        from tensat_dl.gpu.gpu_machine import this_machine
        from tensat_dl.lang.named_sizes import graph_of
        from tensat_dl.lang.program import load_program
        from tensat_dl.verify.weights import draw_values

        self.loaded: dict[str, tuple[Any, Any]] = {}
        for name in GRAPHS:
            program = load_program(str(file_of(folder, model, name)))
            (item,) = program.graphs.values()
            self.loaded[name] = (graph_of(item, program.ops, program.blocks), program.ops)
        original, ops = self.loaded["original"]
        self.values = draw_values([original], seed, {})
        self.machine = this_machine(ops, self.values, tf32=False)
        self._want = self.machine.reference(original)
        self.cells: dict[str, dict[str, Any]] = {}
        self.ready: dict[str, Any] = {}

    def by_torch(self, name: str, mode: str) -> Compiled:
        """A graph as torch runs it."""
        return Compiled(*self.loaded[name], self.values, self.machine.target, MODES[mode])

    def attempt(self, name: str, make: Callable[[], Any]) -> bool:
        """Whether a way of running a graph works. If not, its cell gets the error."""
        from tensat_dl.gpu.gpu_machine import relative_errors, said
        from tensat_dl.gpu.torch_device import running

        try:
            contender = make()
            error = max(relative_errors(running(self.machine.target, contender.run).outputs, self._want))
        except Exception as e:  # compilers raise all kinds
            self.cells[name] = {"error": said(e)}
            return False
        self.cells[name] = {"max_rel_error": error}
        self.ready[name] = contender
        return True

    def timed(self) -> dict[str, dict[str, Any]]:
        """The cells, with the latency of each way that works, and its ratio to the original if the original works."""
        from tensat_dl.measure.contest import STARTS
        from tensat_dl.measure.statistics import latency, ratio_to_first

        samples = [self.machine.times(list(self.ready.values())) for _ in range(STARTS if self.ready else 0)]
        for k, name in enumerate(self.ready):
            found = latency(samples, k)
            self.cells[name] |= {"median_ms": found.median_ms, "spread_ms": found.spread_ms}
            if "original" in self.ready:
                ratio = ratio_to_first(samples, k)
                self.cells[name]["ratio"] = {"median": ratio.mid, "low": ratio.low, "high": ratio.high}
        return self.cells


class Compiled:
    """A graph as torch runs it, with f32 as precise as the kernels that it is compared with."""

    def __init__(self, graph: Any, ops: Any, values: Any, target: Any, mode: str | None) -> None:
        import torch

        from tensat_dl.gpu.executor import TorchGraph, input_tensors

        module = TorchGraph(graph, ops, values, target)
        # As one graph, or not at all: else a part that torch runs without compiling it would count as compiled.
        self.call = module if mode is None else torch.compile(module, mode=mode, fullgraph=True)
        self.inputs = input_tensors(graph, values, target)

    def run(self) -> list[Any]:
        import torch

        from tensat_dl.resources import kernels

        with torch.no_grad(), kernels("matmul").rounding(tf32=False):
            found: list[Any] = self.call(*self.inputs)
        return found
