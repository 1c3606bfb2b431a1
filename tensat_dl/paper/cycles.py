"""Whether applying a match would close a cycle of e-classes: the checks of the ``vanilla``, ``efficient`` and
``incremental`` modes of cycle filtering.

E-classes are given by their handles. An e-class reaches another if one of its e-nodes has it as a child, directly
or through others. A match unites each matched output s with what the target computes for it. If that is an
operator, s comes to depend on the target's leaves: the e-classes that the target takes from the source. The match
closes a cycle if a leaf reaches s, or, with several outputs, if leaves and outputs reach one another in a ring.

If the target for s is another e-class t of the source, the match is skipped if t reaches s. The opposite, s
reaches t, is how every simplification looks, such as transpose(transpose(x)) to x. These are let through, although
the longer form makes an e-class depend on itself: the post-filter drops that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

#: E-classes and those that their e-nodes have as children.
ClassGraph = Mapping[int, Iterable[int]]


@dataclass(frozen=True, slots=True)
class OutputEffect:
    """What a match does to one matched output. With ``same`` it is united with that e-class of the source, else it
    gets an e-node that depends on ``leaves``."""

    source: int
    leaves: frozenset[int] = frozenset()
    same: int | None = None


#: From an e-class to the goals that it reaches or is, as bits.
Reached = Callable[[int], int]


class Checker(Protocol):
    """What a mode knows about the e-graph while an iteration's matches are filtered."""

    def find(self, c: int) -> int:
        """The e-class that ``c`` has become part of."""
        ...

    def reach(self, goals: tuple[int, ...]) -> Reached:
        """A look-up of which ``goals`` (bit k for goal k) an e-class reaches."""
        ...

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        """A match is going to be applied."""
        ...


def closes_cycle(outputs: tuple[OutputEffect, ...], checker: Checker) -> bool:
    """Whether a match would close a cycle, as far as the checker knows the e-graph."""
    if len(outputs) == 1:
        (only,) = outputs
        reached = checker.reach((only.source,))
        if only.same is not None:
            return checker.find(only.same) != checker.find(only.source) and bool(reached(only.same))
        return any(map(reached, only.leaves))
    find = checker.find
    outputs = tuple(
        OutputEffect(find(o.source), o.leaves, None if o.same is None else find(o.same)) for o in outputs
    )
    united = _united(outputs)
    goals = tuple(dict.fromkeys(c for o in outputs for c in united[o.source]))
    reached = checker.reach(goals)
    bit = {c: 1 << k for k, c in enumerate(goals)}
    # Each set of e-classes that become one is a vertex. It is left through a target's leaf or, if it has several
    # members, through any member, and entered at any member.
    entry = {united[o.source]: sum(bit[c] for c in united[o.source]) for o in outputs}
    exits = dict.fromkeys(entry, 0)
    for o in outputs:
        own = united[o.source]
        through_leaves = 0
        for leaf in o.leaves:
            through_leaves |= reached(leaf)
        if through_leaves & entry[own]:
            return True
        if o.same is not None and o.same != o.source and reached(o.same) & bit[o.source]:
            return True
        exits[own] |= through_leaves
        if len(own) > 1:
            for c in own:
                exits[own] |= reached(c)
    return _has_ring({v: [w for w in entry if w != v and exits[v] & entry[w]] for v in entry})


def _united(outputs: Iterable[OutputEffect]) -> dict[int, frozenset[int]]:
    """For each e-class that is an output or the same as one: those that a match makes one with it."""
    sets: dict[int, frozenset[int]] = {}
    for o in outputs:
        pair = (o.source,) if o.same is None else (o.source, o.same)
        merged = frozenset(pair).union(*(sets.get(c, frozenset()) for c in pair))
        for c in merged:
            sets[c] = merged
    return sets


def _has_ring(successors: Mapping[frozenset[int], list[frozenset[int]]]) -> bool:
    waiting = dict(successors)
    while waiting:
        ready = [v for v, ws in waiting.items() if not any(w in waiting for w in ws)]
        if not ready:
            return True
        for v in ready:
            del waiting[v]
    return False


def children_first(graph: ClassGraph) -> list[int]:
    """Every e-class after those that it depends on. Raises ValueError if there is a cycle."""
    out: list[int] = []
    state: dict[int, bool] = {}  # False: begun, True: done
    for start in graph:
        if start in state:
            continue
        state[start] = False
        stack = [(start, iter(graph[start]))]
        while stack:
            c, rest = stack[-1]
            for d in rest:
                known = state.get(d)
                if known is None:
                    state[d] = False
                    stack.append((d, iter(graph.get(d, ()))))
                    break
                if not known:
                    raise ValueError("the e-graph has a cycle")
            else:
                stack.pop()
                state[c] = True
                out.append(c)
    return out


def has_cycle(graph: ClassGraph) -> bool:
    try:
        children_first(graph)
    except ValueError:
        return True
    return False


class Descendants:
    """The descendants map: for each e-class the set of those that it reaches, itself included, as bits."""

    def __init__(self, graph: ClassGraph) -> None:
        order = children_first(graph)
        self.position = {c: k for k, c in enumerate(order)}
        self.sets: dict[int, int] = {}
        for k, c in enumerate(order):
            bits = 1 << k
            for d in graph.get(c, ()):
                bits |= self.sets[d]
            self.sets[c] = bits

    def reaches(self, c: int, goal: int) -> bool:
        return bool(self.sets[c] >> self.position[goal] & 1)


class Efficient:
    """The paper's pre-filter: a descendants map made once per iteration. It does not know of matches that were
    accepted since, so two of them may close a cycle together; the post-filter finds those."""

    def __init__(self, graph: ClassGraph) -> None:
        self.descendants = Descendants(graph)

    def find(self, c: int) -> int:
        return c

    def reach(self, goals: tuple[int, ...]) -> Reached:
        reaches = self.descendants.reaches
        if len(goals) == 1:
            (goal,) = goals
            return lambda c: reaches(c, goal)
        return lambda c: sum(1 << k for k, goal in enumerate(goals) if reaches(c, goal))

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        pass


class Mirror:
    """The e-graph by its e-classes, with what accepted matches add. ``alias`` says what became one with another."""

    def __init__(self, graph: ClassGraph) -> None:
        self.children = {c: set(ds) for c, ds in graph.items()}
        self.alias: dict[int, int] = {}

    def find(self, c: int) -> int:
        while c in self.alias:
            c = self.alias[c]
        return c

    def marked(self, goals: tuple[int, ...]) -> dict[int, int]:
        """The e-classes of the goals, each with those as bits."""
        own: dict[int, int] = {}
        for k, goal in enumerate(goals):
            c = self.find(goal)
            own[c] = own.get(c, 0) | 1 << k
        return own


class Vanilla(Mirror):
    """The paper's first method: each check is a pass over the whole e-graph as it is, with what the matches
    accepted before it have added. What congruence will add is not known before the engine has rebuilt."""

    def reach(self, goals: tuple[int, ...]) -> Reached:
        own = self.marked(goals)
        masks: dict[int, int] = {}
        children = self.children
        for c in children_first(children):
            mask = own.get(c, 0)
            for d in children[c]:
                mask |= masks[d]
            masks[c] = mask
        return lambda c: masks[self.find(c)]

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        for o in outputs:
            if o.same is not None:
                self._unite(self.find(o.source), self.find(o.same))
        for o in outputs:
            self.children[self.find(o.source)].update(map(self.find, o.leaves))

    def _unite(self, a: int, b: int) -> None:
        """Makes ``a`` another name of ``b``. Children of one that lead to the other are forms that the post-filter
        will drop."""
        if a == b:
            return
        reached = self.reach((a, b))
        joined = {d for d in self.children.pop(a) if not reached(d) & 2}
        joined |= {d for d in self.children[b] if not reached(d) & 1}
        self.children[b] = joined
        self.alias[a] = b
        for kids in self.children.values():
            if a in kids:
                kids.remove(a)
                kids.add(b)
