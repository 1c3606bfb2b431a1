"""`verify_rules`: the verdicts on rules, from the cache as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.rules import cache
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.verify.rules.workers import examine_all

#: Called with how many verdicts are there, how many there will be, and the rule that was examined last.
Progress = Callable[[int, int, str], None]


def verify_rules(
    rules: Sequence[RewriteRule],
    ops: OpTable,
    *,
    seed: int = 0,
    cached: bool = True,
    progress: Progress | None = None,
) -> tuple[Verdict, ...]:
    """What is known of each rule's truth, in order.

    A rule is tested on concrete instances, whose two sides are compared exactly; see docs/verification.md for what
    the verdicts say. Verdicts are kept in the user's folder for caches, unless not ``cached``. The same rule with the
    same operators and seed gets the same verdict.
    """
    found: dict[int, Verdict] = {}
    keys = [cache.key(rule, ops, seed) for rule in rules] if cached else []
    for i, name in enumerate(keys):
        known = cache.load(name)
        if known is not None:
            found[i] = known
    left = [(i, rule) for i, rule in enumerate(rules) if i not in found]
    with closing(examine_all(left, ops, seed)) as verdicts:
        for i, verdict in verdicts:
            found[i] = verdict
            if cached:
                cache.save(keys[i], verdict)
            if progress is not None:
                progress(len(found), len(rules), rules[i].name)
    return tuple(found[i] for i in range(len(rules)))


def rounding_alike(
    rules: Sequence[RewriteRule], ops: OpTable, progress: Progress | None = None
) -> tuple[RewriteRule, ...]:
    """The rules whose two sides gave the same floating-point numbers on every instance, to the last bit."""
    verdicts = verify_rules(rules, ops, progress=progress)
    return tuple(rule for rule, v in zip(rules, verdicts, strict=True) if v.rounding == "exact")
