"""Which matches of group and multi-pattern rules were applied, read back from what exploration keeps anyway.

Single-pattern rules run inside of the engine, which keeps no record; their matches can be found again in the e-graph.
Which members a group rule merged, and for which pairs there was room, cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.types import Applied


def applications(
    rules: Sequence[CompiledRule],
    applied: Iterable[tuple[str, tuple[object, ...]]],
    canonical: Mapping[int, int],
) -> tuple[Applied, ...]:
    """The applications behind the keys of `Selection.applied`, oldest tensors first.

    ``canonical`` has the handle that the e-class of any handle has now.
    """
    known = {r.name: r for r in rules if r.rule.kind != "single"}
    found = []
    for name, key in applied:
        if name in known:
            found.append(_decoded(known[name], [canonical[h] for h in key if isinstance(h, int)]))
    return tuple(sorted(found, key=lambda a: (max(a.tensors), a.rule, a.shared, a.members)))


def _decoded(compiled: CompiledRule, handles: Sequence[int]) -> Applied:
    """From a key: the handles of shared tensors, then those of each member."""
    rule = compiled.rule
    shared = [t for t in compiled.tensors if t not in rule.members]
    varying = [t for t in compiled.tensors if t in rule.members]
    members = []
    rest = handles[len(shared) :]
    while rest:
        members.append(tuple(zip(varying, rest, strict=False)))
        rest = rest[len(varying) :]
    return Applied(rule.name, tuple(zip(shared, handles, strict=False)), tuple(members))
