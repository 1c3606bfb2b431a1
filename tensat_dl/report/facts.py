"""The numbers of all reports, and their formats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import TYPE_CHECKING

from tensat_dl.core.graph import Graph
from tensat_dl.core.words import counted, plural
from tensat_dl.cost.model import FREE, PricedGraph
from tensat_dl.run.growth import percent
from tensat_dl.sizes.named import Sizes, in_words

if TYPE_CHECKING:
    from tensat_dl.baselines.walk import Trace
    from tensat_dl.cost.device import Environment
    from tensat_dl.engine.exploration import Stop
    from tensat_dl.measure.machine import Outcome
    from tensat_dl.run.result import AnswerAtSizes, Result
    from tensat_dl.verify.equivalence import Agreement


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator in both graphs: how often it runs, its cost, and the measured share of the cost."""

    op: str
    count: tuple[int, int]
    cost: tuple[float, float]
    measured: tuple[float, float]

    @property
    def source(self) -> str:
        """The origin of the operator's costs, in a word or two."""
        shares = {m for m, n in zip(self.measured, self.count, strict=True) if n}
        return provenance(shares.pop()) if len(shares) == 1 else "partly measured"


def running(graph: Graph) -> list[int]:
    """The nodes that run each time: neither free nor computed from weights alone."""
    constant = graph.weights_only()
    return [i for i, n in enumerate(graph.nodes) if not constant[i] and n.op not in FREE]


def operators(graph: Graph) -> dict[str, int]:
    """The number of nodes that run, by operator."""
    return dict(sorted(Counter(graph.nodes[i].op for i in running(graph)).items()))


def by_operator(before: PricedGraph, after: PricedGraph) -> list[OperatorRow]:
    """The operators of both graphs, the costliest first. Together the rows are the whole cost."""
    sides = [_costs(priced) for priced in (before, after)]
    rows = []
    for op in {*sides[0], *sides[1]}:
        (count, cost, share), (count_after, cost_after, share_after) = (
            side.get(op, (0, 0.0, 0.0)) for side in sides
        )
        rows.append(OperatorRow(op, (count, count_after), (cost, cost_after), (share, share_after)))
    return sorted(rows, key=lambda r: (-max(r.cost), r.op))


def _costs(priced: PricedGraph) -> dict[str, tuple[int, float, float]]:
    """By operator: the number of nodes, their cost, and the measured share of it."""
    totals: dict[str, tuple[int, float, float]] = {}
    runs = set(running(priced.graph))
    for i, node in enumerate(priced.graph.nodes):
        if i in runs or priced.cost[i] > 0:
            n, cost, known = totals.get(node.op, (0, 0.0, 0.0))
            totals[node.op] = n + 1, cost + priced.cost[i], known + priced.cost[i] * priced.measured[i]
    return {op: (n, cost, known / cost if cost > 0 else 0.0) for op, (n, cost, known) in totals.items()}


def provenance(share: float) -> str:
    """The origin of a cost, given the share of it that was measured. Never rounds to all or nothing."""
    if share >= 1.0 - 1e-12:
        return "measured"
    if share <= 0.0:
        return "estimated"
    return f"{percent(share)} measured"


def costs_come_from(before: PricedGraph, after: PricedGraph, device: str) -> str:
    """The origin of the costs of two graphs: "estimated for h100", or "87% measured on h100, rest estimated"."""
    sides = [provenance(p.measured_share) for p in (before, after)]
    rest = ", rest estimated" if any("%" in side for side in sides) else ""
    if sides[0] != sides[1]:
        return f"before {sides[0]}, after {sides[1]} on {device}{rest}"
    return f"{sides[0]} {'for' if sides[0] == 'estimated' else 'on'} {device}{rest}"


def measured(found: Outcome) -> str:
    """The result of timing whole graphs, in one line."""
    place = _place(found.environment)
    if found.earlier:
        place += f"; with {counted(found.earlier, 'start')} of earlier runs"
    if found.before is None or found.after is None or found.ratio is None:
        return f"{found.reason} ({place})"
    least = min(found.before.median_ms, found.after.median_ms)
    before, after = (
        f"{latency(x.median_ms, least)} ± {latency(x.spread_ms, least)}" for x in (found.before, found.after)
    )
    r = found.ratio
    factor = f"{1 / r.mid:.2f}x as fast ({1 / r.high:.2f} to {1 / r.low:.2f}, {r.confidence:.0%} confidence)"
    if found.winner is None:
        return f"{before}; {found.reason}, the best is {factor}; {place}"
    for i, there in enumerate(found.elsewhere):
        factor += f"{',' if i else ';'} with {there.sizes} {1 / there.ratio.mid:.2f}x"
    if found.mix:
        factor += " (geometric means over these sizes)"
    return f"{before} -> {after}, {factor}; {place}"


def _place(where: Environment) -> str:
    """The machine that graphs were timed on."""
    if "gpu" in where.hardware:
        return f"CUDA graphs on {where.hardware['gpu']}"
    used = int(where.hardware["threads"])
    return f"ONNX Runtime, {used} {plural(used, 'thread')} of {where.hardware['cpu']}"


#: Why an exploration ended.
STOPS: dict[Stop, str] = {
    "saturated": "saturated: no rule adds anything",
    "nodes": "stopped at the limit of e-nodes",
    "iterations": "stopped at the limit of iterations",
    "time": "stopped at the time limit",
    "memory": "stopped at the memory limit",
    "interrupted": "interrupted",
    "exhausted": "ended: no graph is left to go on from",
}


def stop_of(result: Result) -> str:
    """Why the exploration ended that the answer is from."""
    if result.stop == "saturated" and not result.rounds.whole:
        return "saturated with a part of the rules"
    return STOPS[result.stop]


def rounds(result: Result) -> str:
    """The number of rounds, the end of the search, and the limits that other rounds than the answer's met."""
    found = result.rounds
    end = found.ended or "another would gain nothing"
    early = "" if found.tried or not found.ended else " before all rules were tried"
    text = f"{len(found.stops)}, of which {found.gained} gained; {end}{early}"
    met = Counter(stop for stop in found.stops if stop in ("nodes", "iterations") and stop != result.stop)
    return "; ".join([text, *(f"{count} {STOPS[stop]}" for stop, count in met.items())])


def trace(found: Trace) -> tuple[str, str]:
    """What a search graph by graph did, and how fast; two lines."""
    many = found.expanded
    what = (
        f"{found.search}: {found.tried:,} substitutions in {many:,} {plural(many, 'graph')}, {found.kept:,} kept, "
        f"{found.known:,} known before; {STOPS[found.stop]}"
    )
    rate = f"{found.tried / found.seconds:,.0f} substitutions a second" if found.seconds > 0 else ""
    best = f"best found after {seconds(found.best_seconds)} of {seconds(found.seconds)}"
    return what, ", ".join(x for x in (best, rate) if x)


def agreed(found: Agreement) -> str:
    """The result of comparing an optimized model with the original in ONNX Runtime."""
    if not found.inputs:
        return found.message
    error = f"largest error {found.max_rel:.1e} relative (tolerance {found.tolerance:.0e})"
    return f"agrees: {error}, {found.inputs}"


def named_sizes(found: AnswerAtSizes) -> str:
    """The sizes of names, the sizes at which both graphs were compared, and the gain at the ends of the ranges."""
    parts = [", ".join(f"{s.name} = {s.default} in {s.low}..{s.high}" for s in found.after.sizes)]
    compared, skipped = (
        [at.sizes for at in found.elsewhere if (at.equivalence is None) is s] for s in (False, True)
    )
    if compared:
        parts.append(f"compared for {_sizes_in_words(compared)} as well")
        if skipped:
            parts.append(f"not for {_sizes_in_words(skipped)}, where they would run for long")
    else:
        parts.append("not compared for others")
    for at in found.elsewhere:
        if at.costs is not None and found.before.graph != found.after.graph:
            parts.append(f"{_faster(*at.costs)} for {in_words(at.sizes)}")
    return "; ".join(parts)


def _sizes_in_words(several: Sequence[Sizes]) -> str:
    """``n = 1, 7, 512``, or each combination of several names by itself."""
    if len(several[0]) == 1:
        (name,) = several[0]
        return f"{name} = {', '.join(str(sizes[name]) for sizes in several)}"
    return "; ".join(f"({in_words(sizes)})" for sizes in several)


def speedup(result: Result) -> float | None:
    """Cost before over cost after; None if that is not a number."""
    before, after = result.before.total, result.after.total
    return before / after if after > 0 and isfinite(before) and isfinite(after) else None


def times_faster(result: Result) -> str:
    """The speed-up in words. Another graph is a change, however little it gains."""
    before, after, factor = result.before, result.after, speedup(result)
    if before.graph == after.graph:
        return "unchanged"
    if factor is None:
        return "free"
    return _faster(before.total, after.total)


def _faster(before: float, after: float) -> str:
    """The gain of a cost in words."""
    if not after:
        return "free"
    ratio, way = (before / after, "faster") if before >= after else (after / before, "slower")
    if ratio < 1.005:
        share = f"{1 - 1 / ratio:.1%}"
        return f"no {way}" if share == "0.0%" else f"{share} {way}"
    return f"{ratio:.3g}x {way}" if ratio >= 10 else f"{ratio:.2f}x {way}"


def latency(ms: float, like: float | None = None) -> str:
    """A cost in milliseconds with four significant digits; in microseconds if it, or a cost that is shown with it and
    is ``like`` it, is less than a millisecond, and in seconds if that is more than a minute."""
    if not isfinite(ms):
        return "unknown"
    shown = like or ms
    value, unit = (1000 * ms, "µs") if 0 < shown < 1 else (ms, "ms") if shown < 60_000 else (ms / 1000, "s")
    if value == 0:
        return f"0 {unit}"
    text = f"{value:#.4g}"
    return f"{value:,.0f} {unit}" if "e" in text and value >= 1 else f"{text.rstrip('.')} {unit}"


def seconds(value: float) -> str:
    """A duration: the longer, the coarser."""
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else f"{int(value) // 60} min {int(value) % 60} s"


def size(nbytes: int) -> str:
    """A number of bytes in binary units."""
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"


def gap(result: Result) -> str:
    """The distance of the extracted cost from the proven bound, as in "optimal" or "feasible, gap 3.1%"."""
    extraction = result.extraction
    if extraction.status == "optimal":
        return "optimal"
    if not isfinite(extraction.gap) or extraction.gap >= 1:
        return "feasible, no bound known"
    return f"feasible, gap {'<0.1%' if extraction.gap < 0.001 else f'{extraction.gap:.1%}'}"


def rules_checked(result: Result) -> str:
    """The verdicts on applied rules: how many of each kind, and the names of rules without a bound, or with a bound
    on some instances only."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for v in result.verdicts:
        kind: str = v.status
        if v.status == "tested" and v.log2_error is not None:
            kind = "bounded" if v.bounded == v.instances else "partly"
        elif not v.examined:
            kind = "left"
        kinds[kind].append(v.rule)
    bounds = [v.log2_error for v in result.verdicts if v.log2_error is not None]
    bound = f"p < 2^{ceil(max(bounds, default=0.0))}"
    said = {
        "proved": "proved for all sizes",
        "bounded": f"tested, {bound}",
        "derived": "derived",
        "partly": f"tested, {bound} on some instances only",
        "tested": "tested without a bound",
        "left": "not examined",
    }
    parts = []
    for kind in ("refuted", "proved", "bounded", "derived", "partly", "tested", "assumed", "left"):
        names = kinds[kind]
        if names:
            listed = ", ".join(names[:3]) + (", .." if names[3:] else "")
            which = "" if kind in ("proved", "bounded", "derived") else f" ({listed})"
            parts.append(f"{len(names):,} {said.get(kind, kind)}{which}")
    return "; ".join([*parts, *_overflowing(result)])


def _overflowing(result: Result) -> Iterator[str]:
    """The rules whose sides differ where an integer of a type in the graphs overflows."""
    used = {t.dtype for side in (result.before, result.after) for n in side.graph.nodes for t in n.types}
    differ = [
        (v.rule, types)
        for v in result.verdicts
        for a in v.aspects
        if a.name == "overflow" and (types := [t for t in a.types if t in used])
    ]
    if differ:
        shown = ", ".join(dict.fromkeys(t for _, ts in differ for t in ts))
        names = [rule for rule, _ in differ]
        yield f"overflow of {shown} changes {', '.join(names[:3])}{', ..' if names[3:] else ''}"


def verified(result: Result) -> str:
    """The result of comparing both graphs, in one line."""
    found = result.equivalence
    if found is None:
        return "skipped"
    parts: list[str] = [found.status]
    if found.max_rel_error == found.max_abs_error == 0:
        if found.status != "different":
            parts.append("no difference")
    elif found.max_rel_error is not None and found.max_abs_error is not None:
        parts.append(f"largest error {found.max_rel_error:.1e} relative, {found.max_abs_error:.1e} absolute")
    if found.inputs:
        parts.append(f"on {found.inputs}")
    return ", ".join(parts)
