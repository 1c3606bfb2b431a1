"""The child process of exploration: the engine cannot be interrupted and may run out of memory, so it runs there.

When an e-class receives two different types, the process looks for the rules to blame: the fewest with which that
happens again.
"""

from __future__ import annotations

import gc
import pkgutil
import time
from collections.abc import Iterator, Sequence

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.core.minimal import minimal
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled_rules import CompiledRules
from tensat_dl.engine.egglog import bindings
from tensat_dl.engine.exploration import (
    NARROWING,
    AskHistory,
    Estimate,
    ExploredIteration,
    Feedback,
    Limits,
    RuleAlarm,
    Start,
)
from tensat_dl.engine.explore import Message
from tensat_dl.engine.loop import Explorer
from tensat_dl.ops.table import OpDecl, OpTable

#: The engine is loaded while the parent gets ready.
bindings()


def explore(
    requests: Iterator[Start | Feedback | AskHistory],
    graph: Graph,
    ops: Sequence[OpDecl],
    rules: tuple[RewriteRule, ...],
    limits: Limits,
    estimate: Estimate | None,
) -> Iterator[Message]:
    """The answers to requests: for a start a message for every iteration, or None if going further adds nothing; for
    feedback an iteration, or None if there is nothing to merge. The groups of an iteration that can be refined come
    after it: the parent has something to extract from meanwhile. The rules are compiled once, for ``graph``, where
    the first start is. An error is the last message; an alarm comes twice: at once, and when it is known which rules
    are to blame."""
    # Values of the loop refer to one another in no cycles; looking for these took a fifth of its time.
    gc.disable()
    loop: type[Explorer] = pkgutil.resolve_name(limits.schedule)
    table = OpTable(ops)
    explorer: Explorer | None = None
    steps: Iterator[ExploredIteration | None]
    try:
        compiled = CompiledRules(graph, table, rules, limits, estimate)
        for request in requests:
            if isinstance(request, Start):
                own = tuple(r for r in rules if r.name in request.rules)
                if explorer is not None and request.further:
                    steps = explorer.further(own, request.limits)
                else:
                    explorer = loop(request.graph, table, own, request.limits, estimate, compiled)
                    steps = explorer.run()
            else:
                assert explorer is not None, "a start comes first"
                if isinstance(request, AskHistory):
                    yield explorer.history()
                    continue
                steps = iter((explorer.refine(request),))
            for step in steps:
                yield step
                if step is not None and step.grouping:
                    yield explorer.groups()
            compiled.store.get_ready_to_clear()  # while the parent extracts
    except TsrError as e:
        yield e
    except RuleAlarm as alarm:
        assert explorer is not None, "rules were applied"
        yield alarm  # this process may be ended while it looks for the culprits
        yield blamed(alarm, explorer)


def blamed(alarm: RuleAlarm, first: Explorer) -> RuleAlarm:
    """The alarm of an exploration with as few rules as are known to cause it; these alone cause it again."""
    started = time.monotonic()

    def again(names: Sequence[str]) -> bool:
        if time.monotonic() - started > NARROWING:
            return False
        rules = tuple(r for r in first.rules if r.name in names)
        explorer = type(first)(first.graph, first.ops, rules, first.limits, first.estimate)
        try:
            for _ in explorer.run():
                pass
        except RuleAlarm:
            return True
        return False

    if not again(alarm.rules):  # it took what other rules made room for, or an answer that was merged
        return alarm
    fewest = tuple(minimal(alarm.rules, again))
    places = {r.name: r.span for r in first.rules}
    return RuleAlarm(fewest, tuple(places[name] for name in fewest))
