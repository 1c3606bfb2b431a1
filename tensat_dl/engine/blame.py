"""Which rules are to blame when an e-class receives two different types: the fewest with which it happens again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.types import NARROWING, Job, RuleAlarm
from tensat_dl.ops.table import OpTable

T = TypeVar("T")


def blamed(alarm: RuleAlarm, job: Job, loop: type[Explorer]) -> RuleAlarm:
    """The alarm with as few rules as are known to cause it, found by exploring again with part of them."""
    started = time.monotonic()

    def again(names: Sequence[str]) -> bool:
        if time.monotonic() - started > NARROWING:
            return False
        rules = tuple(r for r in job.rules if r.name in names)
        explorer = loop(job.graph, OpTable(job.ops), rules, job.limits, job.estimate)
        try:
            for _ in explorer.run():
                pass
        except RuleAlarm:
            return True
        return False

    if not again(alarm.rules):  # it took what other rules made room for, or an answer that was merged
        return alarm
    fewest = reduced(alarm.rules, again)
    places = {r.name: r.span for r in job.rules}
    return RuleAlarm(fewest, tuple(places[name] for name in fewest))


def reduced(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> tuple[T, ...]:
    """Some of the items with which it still fails, none of which can be left out (Zeller and Hildebrandt,
    *Simplifying and isolating failure-inducing input*, IEEE TSE 28, 2002). ``items`` themselves fail."""
    parts = 2
    items = tuple(items)
    while len(items) > 1:
        size = -(-len(items) // parts)
        chunks = [items[i : i + size] for i in range(0, len(items), size)]
        rests = [tuple(x for x in items if x not in chunk) for chunk in chunks] if parts > 2 else []
        smaller = next((part for part in (*chunks, *rests) if len(part) < len(items) and fails(part)), None)
        if smaller is not None:
            parts = 2 if smaller in chunks else max(parts - 1, 2)
            items = smaller
        elif parts >= len(items):
            break
        else:
            parts = min(2 * parts, len(items))
    return items
