"""One model of ``tensat-dl bench onnx``: the models that each tool makes of it, timed in turn."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx_ir as ir

from tensat_dl.bench.common import Row
from tensat_dl.bench.onnx_models import OURS, Entry
from tensat_dl.measure.contest import STARTS, starts
from tensat_dl.measure.cpu import time_in_fresh_process
from tensat_dl.measure.statistics import latency, ratio_to_first, ratios
from tensat_dl.onnx.agreement import Incomparable, Reference
from tensat_dl.onnx.inputs import drawn, inputs_of
from tensat_dl.processes import Failed, apart

PEERS = ("onnxslim", "onnxsim")
#: Seconds for a tool.
PATIENCE = 1800.0


def measure(name: str, entry: Entry, threads: int, peers: tuple[str, ...]) -> Row:
    """The row of a model. Raises `Failed`."""
    with TemporaryDirectory(prefix="tensat-dl-bench-") as temporary:
        folder = Path(temporary)
        original = entry.file_in(folder)
        loaded = ir.load(original)
        given = _given(loaded, entry, folder / "inputs.npz")
        row: Row = {"model": name, "source": entry.source, "dims": dict(entry.dims)}
        ours, report = _ours(original, entry, folder, threads)
        row |= report
        made = {"original": original, OURS: ours}
        for peer in peers:
            target = folder / f"{peer}.onnx"
            started = time.perf_counter()
            try:
                apart(f"tensat_dl.bench.onnx_cell:{peer}", PATIENCE, source=str(original), target=str(target))
                made[peer] = target
            except Failed as e:
                row["failed"] = {**row.get("failed", {}), peer: str(e)[:200]}
            row["seconds"][peer] = time.perf_counter() - started
        row["nodes"] = {tool: _nodes(path) for tool, path in made.items()}
        try:
            reference = Reference(loaded, str(original), entry.dims, 0, given)
        except Incomparable as e:
            raise Failed(f"the original {e}") from None
        agrees = {tool: reference.check(str(path)) for tool, path in made.items() if tool != "original"}
        row["agreement"] = {
            tool: {
                "status": a.status,
                "max_rel": _finite(a.max_rel),
                "tolerance": a.tolerance,
                "message": a.message,
            }
            for tool, a in agrees.items()
        }
        # A model that differs may not run, and the original needs no second run.
        runs = [t for t in made if t == "original" or agrees[t].status in ("agrees", "narrow")]
        if row["answer"] == "original":
            runs.remove(OURS)
        feeds = folder / "feeds.npz"
        np.savez(feeds, allow_pickle=False, **reference.feeds)
        paths = [made[t] for t in runs]
        samples = starts(
            lambda models, backwards: time_in_fresh_process(models, feeds, threads, backwards),
            paths,
            range(STARTS),
        )
        row["latency"], row["speedup"] = {}, {}
        for k, tool in enumerate(runs):
            found = latency(samples, k)
            row["latency"][tool] = {"median_ms": found.median_ms, "iqr_ms": found.spread_ms}
            if k:
                row["speedup"][tool] = _speedup(samples, k)
        return row


def _ours(original: Path, entry: Entry, folder: Path, threads: int) -> tuple[Path, Row]:
    """The model that ``tensat-dl run`` writes, and numbers of its report. Raises `Failed`."""
    out, report = folder / "tensat-dl.onnx", folder / "report.json"
    options = [f"--dim={name}={size}" for name, size in entry.dims.items()]
    if entry.inputs:
        options.append(f"--input={folder / 'inputs.npz'}")
    command = [sys.executable, "-P", "-m", "tensat_dl", "run", str(original), "-o", str(out), "-q"]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--json", str(report), "--threads", str(threads), *options],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode:
        raise Failed(done.stderr.strip() or f"exit code {done.returncode}")
    told = json.loads(report.read_text(encoding="utf-8"))
    measured = told["measured"]
    return out, {
        "answer": measured["answer"],
        "reason": measured["reason"],
        "predicted_ms": {side: measured[side]["predicted_ms"] for side in ("before", "after")},
        "measured_ms": {side: measured[side]["median_ms"] for side in ("before", "after")},
        "candidates": measured["candidates"],
        "measured_share": told["cost"]["measured_share"],
        "e-nodes": told["egraph"]["nodes"],
        "stop": told["stop"],
        "opaque": told["model"]["opaque"],
        "operators": told["model"]["nodes"],
        "seconds": {OURS: time.perf_counter() - started, "measuring": told["time"]["measure"]},
        "hardware": measured["hardware"],
        "versions": measured["versions"],
    }


def onnxslim(source: str, target: str) -> dict[str, Any]:
    """In a process of its own: a model simplified by onnxslim."""
    import onnx
    from onnxslim import slim  # type: ignore[import-not-found, import-untyped, unused-ignore]

    onnx.save(slim(onnx.load(source)), target)
    return {}


def onnxsim(source: str, target: str) -> dict[str, Any]:
    """In a process of its own: a model simplified by onnxsim."""
    import onnx
    from onnxsim import simplify  # type: ignore[import-not-found, import-untyped, unused-ignore]

    onnx.save(simplify(onnx.load(source))[0], target)
    return {}


def _given(model: ir.Model, entry: Entry, path: Path) -> Mapping[str, Any] | None:
    """Random inputs, except those for which the entry has values."""
    if not entry.inputs:
        return None
    values = next(drawn(inputs_of(model), entry.dims, 0))
    for name, number in entry.inputs.items():
        values[name] = np.full_like(values[name], number)
    np.savez(path, allow_pickle=False, **values)
    return values


def _speedup(samples: Any, k: int) -> Row:
    """The original's latency over the k-th model's, with its interval over all processes."""
    interval, each = ratio_to_first(samples, k), [1 / r for r in ratios(samples, k)]
    low, _, high = quantiles(each, n=4)
    return {
        "median": 1 / interval.mid,
        "low": 1 / interval.high,
        "high": 1 / interval.low,
        "confidence": interval.confidence,
        "iqr": high - low,
    }


def _nodes(path: Path) -> int:
    """Nodes that compute, subgraphs' included."""
    graphs = ir.load(path).graphs()
    return sum(n.op_type != "Constant" for graph in graphs for n in graph)


def _finite(x: float) -> float | None:
    return x if np.isfinite(x) else None


def installed() -> tuple[str, ...]:
    """The installed peers."""
    import importlib.util

    return tuple(p for p in PEERS if importlib.util.find_spec(p) is not None)
