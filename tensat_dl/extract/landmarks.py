"""Landmarks: the e-classes that every acyclic derivation of an e-class contains.

    D(c) = {c} + intersection over e-nodes n of c of D(n),    D(n) = union over children d of n of D(d)

taken as the greatest fixpoint. (The name is from planning, where the same recursion finds the facts that
every plan for a goal goes through.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tensat_dl.extract.problem import Problem

#: Above this many classes only {c} and the children of single e-nodes' classes would fit: D is left trivial.
#: The bitsets of n classes take at most n * n / 16 bytes, 56 MB at the limit.
MAX_CLASSES = 30_000

#: Re-evaluations of e-nodes in one strong component, for each of its e-nodes, before it is given up.
MAX_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Sets of classes are integers: class ``c`` is bit ``bit[c]``."""

    classes: list[int]  #: by bit; a class comes after those it reaches, except within a strong component
    bit: dict[int, int]
    first: dict[int, int]  #: lowest bit of a class's strong component: classes of lower bits do not reach it
    above: dict[int, int]  #: D(c)

    def of_kids(self, kids: Iterable[int]) -> int:
        """D(n) for an e-node with these children."""
        bits = 0
        for d in kids:
            bits |= self.above[d]
        return bits

    def mask(self, classes: Iterable[int]) -> int:
        packed = bytearray(
            len(self.classes) // 8 + 1
        )  # as integers, each class would take a copy of all bits
        for c in classes:
            i = self.bit[c]
            packed[i >> 3] |= 1 << (i & 7)
        return int.from_bytes(packed, "little")


def landmarks(problem: Problem) -> Landmarks:
    components = problem.components()
    classes = [c for component in components for c in component]
    bit = {c: i for i, c in enumerate(classes)}
    first = {c: bit[component[0]] for component in components for c in component}
    marks = Landmarks(classes, bit, first, {})
    for component in components:
        alone = {c: 1 << bit[c] for c in component}
        if len(classes) > MAX_CLASSES:
            marks.above.update(alone)
        elif len(component) == 1:
            (c,) = component
            meet = -1
            for n in problem.nodes[c]:
                meet &= marks.of_kids(problem.kids[n])
            marks.above[c] = alone[c] | meet
        else:
            marks.above.update(_fixpoint(problem, alone, marks.above))
    return marks


def _fixpoint(problem: Problem, alone: dict[int, int], above: dict[int, int]) -> dict[int, int]:
    """D for the classes of one strong component, given those below it and the set of each class alone."""
    top = 2 * max(alone.values()) - 1
    outer: dict[int, int] = {}  # for each e-node the union over its children outside
    inner: dict[int, list[int]] = {}
    users: dict[int, set[int]] = {c: set() for c in alone}
    for c in alone:
        for n in problem.nodes[c]:
            outer[n] = 0
            inner[n] = []
            for d in problem.kids[n]:
                if d in alone:
                    inner[n].append(d)
                    users[d].add(c)
                else:
                    outer[n] |= above[d]
    value = dict.fromkeys(alone, top)
    queue = deque(c for c in alone if any(not inner[n] for n in problem.nodes[c]))
    queued = set(queue)
    allowance = MAX_ROUNDS * len(outer)
    while queue:
        c = queue.popleft()
        queued.discard(c)
        allowance -= len(problem.nodes[c])
        if allowance < 0:
            # Not yet a fixpoint, so the sets are still too large to be true: each class alone surely holds.
            return alone
        meet = top
        for n in problem.nodes[c]:
            union = outer[n]
            for d in inner[n]:
                union |= value[d]
            meet &= union
        meet |= alone[c]
        if meet != value[c]:
            value[c] = meet
            queue.extend(user for user in sorted(users[c]) if user not in queued)
            queued |= users[c]
    return value
