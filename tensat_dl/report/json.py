"""The ``--json`` report of a run. The names of its keys are a contract; extras may be added."""

from __future__ import annotations

from collections import defaultdict
from math import isfinite
from typing import Any

from tensat_dl.engine.iterations import Iteration
from tensat_dl.measure.outcome import Outcome
from tensat_dl.measure.statistics import Latency
from tensat_dl.report.facts import measured_share, operators, speedup
from tensat_dl.report.verdicts import verdict_to_json
from tensat_dl.run.growth import growth
from tensat_dl.run.result import Result
from tensat_dl.verify.exact.compare import Exact
from tensat_dl.verify.exact.field import PRIMES


def result_to_json(result: Result, output_path: str | None) -> dict[str, Any]:
    """The report as plain data. Costs are milliseconds, times are seconds; numbers that are not finite are null."""
    extraction, found = result.extraction, result.equivalence
    return {
        "graph": result.before.graph.name,
        "device": result.device,
        "cost": {
            "before": number(result.before.total),
            "after": number(result.after.total),
            "measured_share": number(result.measured_share),
            "measured_share_before": number(measured_share(result.before)),
            "speedup": number(speedup(result)),
            "unit": "ms",
        },
        "operators": {"before": operators(result.before.graph), "after": operators(result.after.graph)},
        "weight_bytes": {"before": result.before.weight_bytes, "after": result.after.weight_bytes},
        "egraph": {"nodes": result.nodes, "classes": result.classes},
        "cycles": {
            "mode": result.cycles,
            "skipped": sum(it.skipped for it in result.iterations),
            "filtered": result.iterations[-1].filtered if result.iterations else 0,
        },
        "stop": result.stop,
        "interrupted": result.interrupted,
        "iterations": [_iteration(it) for it in result.iterations],
        "growth": growth(result.iterations),
        "rules_used": dict(result.rules_used),
        "rules_applied": [verdict_to_json(v) for v in result.verdicts],
        "time": {
            "parse": number(result.times.parse),
            "explore": number(result.times.explore),
            "cost": number(result.times.cost),
            "extract": number(result.times.extract),
            "verify": number(result.times.verify),
            "measure": number(result.times.measure),
            "total": number(result.times.total),
        },
        "extract": {
            "method": extraction.method,
            "status": extraction.status,
            "cost": number(extraction.cost),
            "bound": number(extraction.bound),
            "gap": number(extraction.gap),
            "seconds": number(extraction.seconds),
        },
        "verify": {
            "status": "skipped" if found is None else found.status,
            "max_abs_error": None if found is None else number(found.max_abs_error),
            "max_rel_error": None if found is None else number(found.max_rel_error),
            "inputs": None if found is None else found.inputs,
            "surrogates": [] if found is None else list(found.surrogates),
            "message": "" if found is None else found.message,
            "exact": _exact(result.exact),
        },
        "measured": _measured(result.measured),
        "notes": list(result.notes),
        "output": output_path,
    }


def _exact(exact: Exact | None) -> dict[str, Any]:
    """The exact comparison. ``moduli`` is empty for a comparison in exact numbers, ``log2_error`` null without a
    bound."""
    if exact is None:
        return {"status": "skipped", "moduli": [], "log2_error": None, "functions": [], "reason": ""}
    compared = exact.status != "unsupported"
    return {
        "status": exact.status if compared else "not compared",
        "moduli": list(PRIMES) if compared and exact.level == "modular" else [],
        "log2_error": number(exact.log2_error),
        "functions": list(exact.stand_ins),
        "reason": exact.reason,
    }


def _measured(found: Outcome | None) -> dict[str, Any] | None:
    """The timing of whole graphs, in milliseconds. ``ratio`` is after over before; null where nothing was timed."""
    if found is None:
        return None
    ratio = found.ratio
    return {
        "answer": "original" if found.winner is None else "candidate",
        "reason": found.reason,
        "before": _latency(found.before, found.predicted_ms),
        "after": _latency(found.after, found.contender.predicted_ms if found.contender else None),
        "ratio": None
        if ratio is None
        else {
            "median": ratio.mid,
            "low": ratio.low,
            "high": ratio.high,
            "confidence": ratio.confidence,
        },
        "max_rel_error": None if found.agreement is None else number(found.agreement.max_rel),
        "tolerance": None if found.agreement is None else number(found.agreement.tolerance),
        "inputs": None if found.agreement is None else found.agreement.inputs,
        "candidates": [
            {"predicted_ms": number(c.predicted_ms), "ratio": number(c.ratio), "reason": c.reason}
            for c in found.candidates
        ],
        "hardware": dict(found.environment.hardware),
        "versions": dict(found.environment.versions),
    }


def _latency(found: Latency | None, predicted: float | None) -> dict[str, Any]:
    return {
        "predicted_ms": number(predicted),
        "median_ms": None if found is None else found.median_ms,
        "spread_ms": None if found is None else found.spread_ms,
        "samples": 0 if found is None else found.samples,
    }


def _iteration(iteration: Iteration) -> dict[str, Any]:
    matches: dict[str, int] = defaultdict(int)
    for rule in iteration.rules:
        matches[rule.rule] += rule.matches
    return {
        "nodes": iteration.nodes,
        "classes": iteration.classes,
        "seconds": number(iteration.seconds),
        "skipped": iteration.skipped,
        "filtered": iteration.filtered,
        "matches": dict(matches),
        "rules": [
            {
                "rule": r.rule,
                "matches": r.matches,
                "applied": r.applied,
                "new_nodes": r.new_nodes,
                "seconds": number(r.seconds),
                "note": r.note,
            }
            for r in iteration.rules
        ],
    }


def number(value: float | None) -> float | None:
    """A float that JSON can express, also where the value is an integer or a NumPy scalar."""
    return float(value) if value is not None and isfinite(value) else None
