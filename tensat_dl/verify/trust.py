"""Rules that no execution can check: those about operators of which only the types are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.result import Iteration
from tensat_dl.verify.equivalence import Equivalence


def assumed(rules: Iterable[RewriteRule], ops: OpTable) -> dict[str, tuple[str, ...]]:
    """The rules that say something about opaque operators, each with these operators.

    A rule in which the same applications stand on both sides is one of them too: what is applied to what is
    decided by its other nodes.
    """
    found = {}
    for rule in rules:
        nodes = (*rule.source.nodes, *rule.target.nodes)
        opaque = tuple(dict.fromkeys(n.op for n in nodes if ops[n.op].opaque))
        if opaque:
            found[rule.name] = opaque
    return found


def on_trust(
    found: Equivalence, iterations: Sequence[Iteration], rules_assumed: Mapping[str, Sequence[str]]
) -> Equivalence:
    """``found``, or "inconclusive" in place of "different" if rules about opaque operators were applied.

    The surrogate of an opaque operator obeys none of the laws that such a rule states, so a difference is to be
    expected, and says nothing about the other rules either.
    """
    applied = {s.rule for step in iterations for s in step.rules if s.applied}
    trusted = [
        f"{name} ({', '.join(rules_assumed[name])})" for name in sorted(applied & rules_assumed.keys())
    ]
    if found.status != "different" or not trusted:
        return found
    message = f"the result may rest on rules about operators whose values are not known: {', '.join(trusted)}"
    return replace(found, status="inconclusive", message=message)
