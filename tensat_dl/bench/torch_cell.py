"""One model of ``tensat-dl bench torch``: its contestants, each in a process of its own, timed in turn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tensat_dl.bench.common import Row
from tensat_dl.bench.torch_models import (
    CONTESTANTS,
    EAGER,
    INDUCTOR,
    INDUCTOR_MAX,
    ONNX_RUNTIME,
    OURS,
    TORCH_MODELS,
)
from tensat_dl.bench.torch_nets import Inputs, build
from tensat_dl.measure.statistics import latency, ratios
from tensat_dl.measure.timing import MODEL_SAMPLE_SECONDS, PAUSE, calls_per_sample, clock_of, timed
from tensat_dl.onnx.agreement import relative_error
from tensat_dl.processes import Child, Failed

#: Seconds for a contestant to get ready, and for a sample.
PATIENCE, SAMPLE_PATIENCE = 1200.0, 120.0
#: Rounds in each start.
ROUNDS = 15

#: A call of the module, or what computes the same.
Call = Callable[[], Any]


def measure(name: str, threads: int, begun: int) -> Row:
    """The row of a model: its contestants begin anew so many times. Raises `Failed`."""
    rounds: list[list[dict[str, float]]] = []  #: of each start: seconds by contestant
    row: Row = {"model": name, "source": TORCH_MODELS[name].source, "failed": {}}
    for _ in range(begun):
        with ExitStack() as stack:
            # Not in the contestants, which are ended by a signal.
            folder = stack.enter_context(TemporaryDirectory(prefix="tensat-dl-bench-"))
            ready: dict[str, Child] = {}
            outputs: dict[str, list[Any]] = {}
            for contestant in (c for c in CONTESTANTS if c not in row["failed"]):
                child = stack.enter_context(
                    Child("tensat_dl.bench.torch_cell:take_part", name, contestant, threads, folder)
                )
                try:
                    found = child.receive(PATIENCE)
                except Failed as e:
                    if contestant in (EAGER, OURS):
                        raise Failed(f"{contestant}: {e}") from None
                    row["failed"][contestant] = str(e)[:200]
                    continue
                ready[contestant], outputs[contestant] = child, found.pop("outputs")
                row.setdefault("seconds", {}).setdefault(contestant, found.pop("seconds"))
                row |= found
            if not rounds:
                row["max_rel"] = {c: _error(outputs[EAGER], outputs[c]) for c in ready}
            rounds.append([{c: _sample(child, threads) for c, child in ready.items()} for _ in range(ROUNDS)])
    names = [c for c in CONTESTANTS if c not in row["failed"]]  # those that took part in every start
    samples = [[[r[c] for c in names] for r in start] for start in rounds]
    row["latency"] = {}
    for k, contestant in enumerate(names):
        found = latency(samples, k)
        row["latency"][contestant] = {"median_ms": found.median_ms, "iqr_ms": found.spread_ms}
    ours = names.index(OURS)
    row["speedup"] = {
        c: _times_as_fast([[[r[ours], r[k]] for r in start] for start in samples])
        for k, c in enumerate(names)
        if k != ours
    }
    return row


def _times_as_fast(samples: Sequence[Sequence[Sequence[float]]]) -> Row:
    """The latency of the second over that of the first: the median of the processes, the least and the largest."""
    each = ratios(samples, 1)
    return {"median": median(each), "low": min(each), "high": max(each)}


def _sample(child: Child, threads: int) -> float:
    if threads > 1:
        time.sleep(PAUSE)  # those of the one before spin
    child.send("call")  # None would end the requests
    return float(child.receive(SAMPLE_PATIENCE))


def _error(expected: Sequence[Any], actual: Sequence[Any]) -> float | None:
    """The largest relative difference of outputs; None if it is infinite, or there is another number of them."""
    if len(expected) != len(actual):
        return None
    worst = max((relative_error(x, y)[0] for x, y in zip(expected, actual, strict=True)), default=0.0)
    return worst if isfinite(worst) else None


# ---- in a process of its own -------------------------------------------------------------------------------------


def take_part(requests: Iterator[Any], name: str, kind: str, threads: int, folder: str) -> Iterator[Any]:
    """Yields the outputs and the seconds until they were there; then, for each request, the seconds of a call."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    module, inputs = build(TORCH_MODELS[name])
    with torch.inference_mode(kind != OURS):
        torch.set_grad_enabled(False)
        started = time.perf_counter()
        call, told = _READY[kind](module, inputs, threads, Path(folder))
        outputs = [x.numpy() for x in pytree.tree_leaves(call()) if isinstance(x, torch.Tensor)]
        yield {"outputs": outputs, "seconds": time.perf_counter() - started, **told}
        clock = clock_of(threads)
        calls = calls_per_sample(call, MODEL_SAMPLE_SECONDS, clock)
        for _ in requests:
            call()  # the caches are as another process left them
            yield timed(call, calls, clock)


def _eager(module: nn.Module, inputs: Inputs, threads: int, folder: Path) -> tuple[Call, Row]:
    return lambda: module(**inputs), {}


def _inductor(module: nn.Module, inputs: Inputs, threads: int, folder: Path) -> tuple[Call, Row]:
    compiled = torch.compile(module)
    return lambda: compiled(**inputs), {}


def _inductor_max(module: nn.Module, inputs: Inputs, threads: int, folder: Path) -> tuple[Call, Row]:
    import torch._inductor.config

    torch._inductor.config.freezing = True
    compiled = torch.compile(module, mode="max-autotune")
    return lambda: compiled(**inputs), {}


def _onnx_runtime(module: nn.Module, inputs: Inputs, threads: int, folder: Path) -> tuple[Call, Row]:
    """The model as torch exports it. Nothing is copied on the way in; outputs are new, as those of all others are."""
    from tensat_dl.onnx.session import Session

    path = folder / "model.onnx"
    torch.onnx.export(module, (), path, kwargs=inputs, dynamo=True, verbose=False)
    session = Session(path, threads)

    def call() -> list[torch.Tensor]:
        return [torch.from_numpy(y) for y in session.outputs({n: x.numpy() for n, x in inputs.items()})]

    return call, {}


def _ours(module: nn.Module, inputs: Inputs, threads: int, folder: Path) -> tuple[Call, Row]:
    import tensat_dl.torch

    fast = tensat_dl.torch.optimize(module, (), inputs, frozen=True)
    called = f"module: {fast.declined}" if fast.declined else fast.called
    return lambda: fast(**inputs), {"called": called}


_READY = {
    EAGER: _eager,
    INDUCTOR: _inductor,
    INDUCTOR_MAX: _inductor_max,
    ONNX_RUNTIME: _onnx_runtime,
    OURS: _ours,
}
