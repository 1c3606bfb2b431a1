"""The JSON files of `run` and `extract`. The names of keys are a contract; extras may be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tensat_dl.baselines.walk import Trace
from tensat_dl.engine.exploration import Iteration
from tensat_dl.extract.extraction import Extraction
from tensat_dl.measure.machine import Outcome
from tensat_dl.measure.statistics import Interval, Latency
from tensat_dl.report.facts import operators, speedup
from tensat_dl.report.verdicts import plain, verdict_to_json
from tensat_dl.run.growth import growth
from tensat_dl.run.result import AnswerAtSizes, Result
from tensat_dl.verify.exact.modular import PRIMES
from tensat_dl.verify.exact.result import Exact


def result_to_json(result: Result, output_path: str | None) -> dict[str, Any]:
    """The report of a run as plain data. Costs are milliseconds, times are seconds; numbers that are not finite are
    null."""
    before, after, found = result.before, result.after, result.equivalence
    report: dict[str, Any] = plain(
        {
            "graph": before.graph.name,
            "device": result.device,
            "cost": {
                "before": before.total,
                "after": after.total,
                "measured_share": after.measured_share,
                "measured_share_before": before.measured_share,
                "speedup": speedup(result),
                "unit": "ms",
            },
            "operators": {"before": operators(before.graph), "after": operators(after.graph)},
            "weight_bytes": {"before": before.weight_bytes, "after": after.weight_bytes},
            "egraph": {"nodes": result.nodes, "classes": result.classes},
            "groups": {
                "count": result.groups.count,
                "merged": result.groups.merged,
                "possible": result.groups.possible,
            },
            "cycles": {
                "mode": result.options.cycles,
                "skipped": sum(it.skipped for it in result.iterations),
                "filtered": result.iterations[-1].filtered if result.iterations else 0,
            },
            "stop": result.stop,
            "rounds": {
                "count": len(result.rounds.stops),
                "gained": result.rounds.gained,
                "stops": list(result.rounds.stops),
                "ended": result.rounds.ended,
                "tried": result.rounds.tried,
                "whole": result.rounds.whole,
            },
            "search": result.options.search,
            "trace": _trace(result.trace),
            "interrupted": result.interrupted,
            "iterations": [_iteration(it) for it in result.iterations],
            "growth": growth(result.iterations),
            "rules_used": dict(result.rules_used),
            "rules_applied": [verdict_to_json(v) for v in result.verdicts],
            "time": asdict(result.times),
            "extract": _extraction(result.extraction),
            "verify": {
                "status": "skipped" if found is None else found.status,
                "max_abs_error": None if found is None else found.max_abs_error,
                "max_rel_error": None if found is None else found.max_rel_error,
                "inputs": None if found is None else found.inputs,
                "surrogates": [] if found is None else list(found.surrogates),
                "message": "" if found is None else found.message,
                "exact": _exact(result.exact),
            },
            "sizes": _sizes(result.sizes),
            "measured": _measured(result.measured),
            "notes": list(result.notes),
            "output": output_path,
        },
        lambda number: None,
    )
    return report


def _trace(found: Trace | None) -> dict[str, Any] | None:
    """A search graph by graph; null for one with an e-graph. Seconds, and milliseconds of cost."""
    return (
        None if found is None else {**asdict(found), "stop": found.stop, "best_seconds": found.best_seconds}
    )


def _iteration(iteration: Iteration) -> dict[str, Any]:
    matches: Counter[str] = Counter()
    for rule in iteration.rules:
        matches[rule.rule] += rule.matches
    return {
        "nodes": iteration.nodes,
        "classes": iteration.classes,
        "seconds": iteration.seconds,
        "skipped": iteration.skipped,
        "filtered": iteration.filtered,
        "matches": dict(matches),
        "rules": [asdict(rule) for rule in iteration.rules],
    }


def _extraction(found: Extraction) -> dict[str, Any]:
    return {
        "method": found.method,
        "status": found.status,
        "cost": found.cost,
        "bound": found.bound,
        "gap": found.gap,
        "seconds": found.seconds,
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
        "log2_error": exact.log2_error,
        "functions": list(exact.stand_ins),
        "reason": exact.reason,
    }


def _sizes(found: AnswerAtSizes | None) -> dict[str, Any] | None:
    """The ranges of named sizes, and what was found at other sizes than the defaults; null without named sizes."""
    if found is None:
        return None
    return {
        "names": [asdict(s) for s in found.after.sizes],
        "elsewhere": [
            {
                "sizes": dict(at.sizes),
                "status": "skipped" if at.equivalence is None else at.equivalence.status,
                "max_rel_error": None if at.equivalence is None else at.equivalence.max_rel_error,
                "cost": None if at.costs is None else {"before": at.costs[0], "after": at.costs[1]},
            }
            for at in found.elsewhere
        ],
    }


def _measured(found: Outcome | None) -> dict[str, Any] | None:
    """The timing of whole graphs, in milliseconds. ``ratio`` is after over before; null where nothing was timed."""
    if found is None:
        return None
    agreement = found.agreement
    return {
        "answer": "original" if found.winner is None else "candidate",
        "reason": found.reason,
        "before": _latency(found.before, found.predicted_ms),
        "after": _latency(found.after, found.contender.predicted_ms if found.contender else None),
        "ratio": _interval(found.ratio),
        "elsewhere": [{"sizes": there.sizes, "ratio": _interval(there.ratio)} for there in found.elsewhere],
        "mix": list(found.mix),
        "earlier_starts": found.earlier,
        "max_rel_error": None if agreement is None else agreement.max_rel,
        "tolerance": None if agreement is None else agreement.tolerance,
        "inputs": None if agreement is None else agreement.inputs,
        "candidates": [
            {"predicted_ms": c.predicted_ms, "ratio": c.ratio, "reason": c.reason} for c in found.candidates
        ],
        "hardware": dict(found.environment.hardware),
        "versions": dict(found.environment.versions),
    }


def _interval(r: Interval | None) -> dict[str, float] | None:
    if r is None:
        return None
    return {"median": r.mid, "low": r.low, "high": r.high, "confidence": r.confidence}


def _latency(found: Latency | None, predicted: float | None) -> dict[str, Any]:
    measured = {"median_ms": None, "spread_ms": None, "samples": 0} if found is None else asdict(found)
    return {"predicted_ms": predicted, **measured}


def answer_to_json(
    found: Extraction, roots: Sequence[int], classes: Sequence[str], nodes: Sequence[str], n_best: int = 1
) -> dict[str, Any]:
    """The answer of `extract`, which docs/extraction.md describes, as plain data. ``classes`` and ``nodes`` are the
    names of e-classes and e-nodes by number.

    ``runners_up`` is there if several answers were asked for, even if there is only one.
    """

    def plain(one: Extraction) -> dict[str, Any]:
        return {"cost": one.cost, "choices": {classes[c]: nodes[n] for c, n in one.choices.items()}}

    answer = {"root_eclasses": [classes[r] for r in dict.fromkeys(roots)], **plain(found)}
    if n_best > 1:
        answer["runners_up"] = [plain(other) for other in found.runners_up]
    return answer


def extraction_to_json(found: Extraction) -> dict[str, Any]:
    """The report of `extract` as plain data: how the answer was found, and its proven bound."""
    more = {
        "runners_up": [other.cost for other in found.runners_up],
        "log": [asdict(moment) for moment in found.log],
    }
    return {"extract": {**_extraction(found), **more}, "interrupted": found.interrupted}
