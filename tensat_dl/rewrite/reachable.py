"""The rules that a graph can come to need: most rules of a pack are about operators that it never has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensat_dl.core.rule import RewriteRule


def reachable(rules: Sequence[RewriteRule], ops: Iterable[str]) -> tuple[RewriteRule, ...]:
    """The rules that could match e-nodes of these operators, or of operators that such rules build; in order."""
    known, left, found = set(ops), {r.name: r for r in rules}, set[str]()
    while True:
        now = [r for r in left.values() if all(n.op in known for n in r.source.nodes)]
        if not now:
            return tuple(r for r in rules if r.name in found)
        for r in now:
            del left[r.name]
            found.add(r.name)
            known.update(n.op for n in r.target.nodes)
