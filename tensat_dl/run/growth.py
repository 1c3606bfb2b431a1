"""Which rules the e-graph owes its e-nodes to, and what to do about one that brought too many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.iterations import Iteration, RuleStats, Stop

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
    totals: dict[str, int] = defaultdict(int)
    for iteration in iterations:
        for stats in iteration.rules:
            totals[stats.rule] += stats.new_nodes
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def together(rules: Iterable[RuleStats]) -> list[RuleStats]:
    """One entry for each rule that did something or was held back: a rule may run several times in an iteration."""
    found: dict[str, RuleStats] = {}
    for r in rules:
        old = found.get(r.rule, RuleStats(r.rule, 0, 0, 0, 0.0))
        notes = dict.fromkeys(note for note in (old.note, r.note) if note)
        found[r.rule] = RuleStats(
            r.rule,
            old.matches + r.matches,
            old.applied + r.applied,
            old.new_nodes + r.new_nodes,
            old.seconds + r.seconds,
            "; ".join(notes),
        )
    return [r for r in found.values() if r.matches or r.applied or r.new_nodes or r.note]


def growth_line(iterations: Sequence[Iteration], stop: Stop) -> str:
    """The rules that brought most e-nodes; "" if there is little to say."""
    totals = growth(iterations)
    whole = _brought(totals)
    if whole == 0 or (whole <= WORTH_SAYING and stop != "nodes"):
        return ""
    named = [rule for i, rule in enumerate(totals) if i < NAMED and (i == 0 or totals[rule] >= SHARE * whole)]
    parts = [f"{rule} +{totals[rule]:,} ({_percent(totals[rule] / whole)})" for rule in named]
    others = [n for rule, n in totals.items() if rule not in named and n > 0]
    if others:
        rest = sum(others)
        parts.append(
            f"{len(others)} other{'' if len(others) == 1 else 's'} +{rest:,} ({_percent(rest / whole)})"
        )
    return ", ".join(parts)


def reason_to_stop(
    iterations: Sequence[Iteration], stop: Stop, rules: Iterable[RewriteRule], k_multi: int | None
) -> str:
    """Which rule is the reason that a limit bound, and what to do about it; "" if no rule is by itself.

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
        f"rule {rule} brought {_percent(most / whole)} of the new e-nodes, and a limit bound: "
        f"{', '.join(ways[:-1])} or {ways[-1]}"
    )


def _brought(totals: Mapping[str, int]) -> int:
    """All e-nodes that rules brought."""
    return sum(n for n in totals.values() if n > 0)


def _percent(share: float) -> str:
    """Never rounds to all or nothing."""
    text = f"{share:.0%}"
    return text if share in (0.0, 1.0) else {"0%": "<1%", "100%": ">99%"}.get(text, text)
