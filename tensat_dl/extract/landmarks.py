"""Landmarks: the e-classes that every acyclic derivation of an e-class contains.

    D(c) = {c} + intersection over e-nodes n of c of D(n),    D(n) = union over children d of n of D(d)

taken as the greatest fixpoint. (The name is from planning, where the same recursion finds the facts that
every plan for a goal goes through.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tensat_dl.extract.problem import Problem, strong_components

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
        bits = 0
        for c in classes:
            bits |= 1 << self.bit[c]
        return bits


def landmarks(problem: Problem) -> Landmarks:
    components = strong_components(problem.nodes, problem.successors())
    classes = [c for component in components for c in component]
    bit = {c: i for i, c in enumerate(classes)}
    first = {c: bit[component[0]] for component in components for c in component}
    above: dict[int, int] = {}
    trivial = len(classes) > MAX_CLASSES
    for component in components:
        if trivial:
            above.update((c, 1 << bit[c]) for c in component)
        elif len(component) == 1:
            (c,) = component
            above[c] = 1 << bit[c] | _meet(problem, c, above)
        else:
            above.update(_fixpoint(problem, component, bit, above))
    return Landmarks(classes, bit, first, above)


def _meet(problem: Problem, c: int, above: dict[int, int]) -> int:
    meet = -1
    for n in problem.nodes[c]:
        union = 0
        for d in problem.kids[n]:
            union |= above[d]
        meet &= union
    return meet


def _fixpoint(
    problem: Problem, component: list[int], bit: dict[int, int], above: dict[int, int]
) -> dict[int, int]:
    """D for the classes of one strong component, given those below it."""
    inside = set(component)
    top = (1 << (max(bit[c] for c in component) + 1)) - 1
    outer: dict[int, int] = {}  # for each e-node the union over its children outside
    inner: dict[int, list[int]] = {}
    users: dict[int, set[int]] = {c: set() for c in component}
    for c in component:
        for n in problem.nodes[c]:
            outer[n] = 0
            inner[n] = []
            for d in problem.kids[n]:
                if d in inside:
                    inner[n].append(d)
                    users[d].add(c)
                else:
                    outer[n] |= above[d]
    value = dict.fromkeys(component, top)
    queue = deque(c for c in component if any(not inner[n] for n in problem.nodes[c]))
    queued = set(queue)
    allowance = MAX_ROUNDS * len(outer)
    while queue:
        c = queue.popleft()
        queued.discard(c)
        allowance -= len(problem.nodes[c])
        if allowance < 0:
            # Not yet a fixpoint, so the sets are still too large to be true: fall back to what surely holds.
            return {c: 1 << bit[c] for c in component}
        meet = top
        for n in problem.nodes[c]:
            union = outer[n]
            for d in inner[n]:
                union |= value[d]
            meet &= union
        meet |= 1 << bit[c]
        if meet != value[c]:
            value[c] = meet
            for user in sorted(users[c]):
                if user not in queued:
                    queued.add(user)
                    queue.append(user)
    return value
