"""The rules to which the e-graph owes its e-nodes, and remedies for a rule that brought too many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.words import plural, series
from tensat_dl.engine.exploration import Iteration, RuleStats, Stop

#: The summary names the rules that made the e-graph grow if they brought more e-nodes than this.
WORTH_SAYING = 1_000
#: How many rules it names, and the share of all new e-nodes from which on it names a rule that is not the first.
NAMED = 3
SHARE = 0.05
#: The share of new e-nodes from which on a rule is said to be the reason that a limit bound.
BLAMED = 0.5

_RAISE: dict[Stop, str] = {
    "nodes": "raise --max-nodes",
    "iterations": "raise --max-iters",
    "time": "raise --time-limit",
    "memory": "allow more memory",
}


def growth(iterations: Iterable[Iteration]) -> dict[str, int]:
    """New e-nodes of each rule that ran over all iterations, most first.

    A rule that makes e-classes equal can make e-nodes equal, too; it may have brought less than none.
    """
    totals = {r.rule: r.new_nodes for r in _summed(r for iteration in iterations for r in iteration.rules)}
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def together(rules: Iterable[RuleStats]) -> list[RuleStats]:
    """One entry for each rule that did something or was held back: a rule may run several times in an iteration."""
    return [r for r in _summed(rules) if r.matches or r.applied or r.new_nodes or r.note]


def _summed(rules: Iterable[RuleStats]) -> list[RuleStats]:
    """One entry for each rule."""
    runs: dict[str, list[RuleStats]] = defaultdict(list)
    for stats in rules:
        runs[stats.rule].append(stats)
    return [
        RuleStats(
            rule,
            sum(r.matches for r in found),
            sum(r.applied for r in found),
            sum(r.new_nodes for r in found),
            sum(r.seconds for r in found),
            "; ".join(dict.fromkeys(r.note for r in found if r.note)),
        )
        for rule, found in runs.items()
    ]


def growth_line(iterations: Sequence[Iteration], stop: Stop) -> str:
    """The rules that brought most e-nodes; "" if there is little to say."""
    totals = growth(iterations)
    whole = _brought(totals)
    if whole == 0 or (whole <= WORTH_SAYING and stop != "nodes"):
        return ""
    named = [rule for i, rule in enumerate(totals) if i < NAMED and (i == 0 or totals[rule] >= SHARE * whole)]
    parts = [f"{rule} +{totals[rule]:,} ({percent(totals[rule] / whole)})" for rule in named]
    others = [n for rule, n in totals.items() if rule not in named and n > 0]
    if others:
        rest = sum(others)
        parts.append(f"{len(others)} {plural(len(others), 'other')} +{rest:,} ({percent(rest / whole)})")
    return ", ".join(parts)


def reason_to_stop(
    iterations: Sequence[Iteration], stop: Stop, rules: Iterable[RewriteRule], k_multi: int | None
) -> str:
    """The rule that is the reason why a limit bound, and remedies; "" if no rule is by itself.

    ``k_multi`` is the number of iterations with multi-pattern rules, None for all.
    """
    totals = growth(iterations)
    whole = _brought(totals)
    if stop not in _RAISE or whole == 0 or not growth_line(iterations, stop):
        return ""
    rule, most = next(iter(totals.items()))
    if most <= BLAMED * whole:
        return ""
    ways = ["leave it out"]
    fewer = 1 if k_multi is None else k_multi - 1
    if fewer >= 0 and any(r.name == rule and r.kind == "multi" for r in rules):
        ways.append(f"try --k-multi {fewer}")
    ways.append(_RAISE[stop])
    return (
        f"rule {rule} brought {percent(most / whole)} of the new e-nodes, and a limit was reached: "
        f"{series(ways, 'or')}"
    )


def _brought(totals: Mapping[str, int]) -> int:
    """All e-nodes that rules brought."""
    return sum(n for n in totals.values() if n > 0)


def percent(share: float) -> str:
    """A share in per cent. Never rounds to all or nothing."""
    text = f"{share:.0%}"
    return text if share in (0.0, 1.0) else {"0%": "<1%", "100%": ">99%"}.get(text, text)
