"""The ``vanilla``, ``efficient`` and ``incremental`` modes of cycle filtering: three ways to know which e-classes
reach which while an iteration's matches are checked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

from tensat_dl.engine.exploration import Cycles
from tensat_dl.paper.cycles import Checker, ClassGraph, OutputEffect, Reached, children_first


class Efficient(Checker):
    """The paper's pre-filter: a descendants map made once per iteration, for each e-class the set of those that it
    reaches, itself included, as bits. The map lacks matches that were accepted since, so two of them may close a
    cycle together; the post-filter finds such cycles."""

    def __init__(self, graph: ClassGraph) -> None:
        order = children_first(graph)
        self.position = {c: k for k, c in enumerate(order)}
        self.sets: dict[int, int] = {}
        for k, c in enumerate(order):
            bits = 1 << k
            for d in graph.get(c, ()):
                bits |= self.sets[d]
            self.sets[c] = bits

    def find(self, c: int) -> int:
        return c

    def reach(self, goals: tuple[int, ...]) -> Reached:
        sets = self.sets
        if len(goals) == 1:
            only = self.position[goals[0]]
            return lambda c: sets[c] >> only & 1
        at = [self.position[goal] for goal in goals]
        return lambda c: sum((sets[c] >> p & 1) << k for k, p in enumerate(at))

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        pass


class Mirror(Checker):
    """The e-graph by its e-classes, with the edges of accepted matches. ``alias`` maps united e-classes."""

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

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        for o in outputs:
            if o.same is not None and self.find(o.source) != self.find(o.same):
                self.unite(self.find(o.source), self.find(o.same))
        for o in outputs:
            self.depend(self.find(o.source), map(self.find, o.leaves))

    @abstractmethod
    def unite(self, a: int, b: int) -> None:
        """Makes ``a`` another name of ``b``. Children of one that lead to the other are forms that the post-filter
        will drop."""

    @abstractmethod
    def depend(self, parent: int, children: Iterable[int]) -> None:
        """Adds edges that close no cycle."""


class Vanilla(Mirror):
    """The paper's first method: each check is a pass over the whole present e-graph, with the edges of matches
    accepted before. The effects of congruence are not known before the engine has rebuilt."""

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

    def depend(self, parent: int, children: Iterable[int]) -> None:
        self.children[parent].update(children)

    def unite(self, a: int, b: int) -> None:
        reached = self.reach((a, b))
        joined = {d for d in self.children.pop(a) if not reached(d) & 2}
        joined |= {d for d in self.children[b] if not reached(d) & 1}
        self.children[b] = joined
        self.alias[a] = b
        for kids in self.children.values():
            if a in kids:
                kids.remove(a)
                kids.add(b)


class Incremental(Mirror):
    """As exact as ``vanilla``, at the cost of a small search for most checks.

    Every e-class has a rank greater than those of its children. A search from a leaf for an output therefore never
    goes below the output's rank, and is over at once if the leaf is below it. When an accepted match adds an edge
    against the order, only e-classes with ranks in between change theirs (Pearce and Kelly, "A dynamic topological
    sort algorithm for directed acyclic graphs", 2006).
    """

    def __init__(self, graph: ClassGraph) -> None:
        super().__init__(graph)
        self.parents: dict[int, set[int]] = {c: set() for c in graph}
        for c, ds in self.children.items():
            for d in ds:
                self.parents[d].add(c)
        self.rank = {c: k for k, c in enumerate(children_first(graph))}

    def reach(self, goals: tuple[int, ...]) -> Reached:
        own = self.marked(goals)
        lowest = min(self.rank[c] for c in own)
        everything = (1 << len(goals)) - 1
        return lambda c: self._search(self.find(c), own, lowest, everything)

    def _search(self, start: int, own: dict[int, int], lowest: int, everything: int) -> int:
        """The goals that are reached from ``start``; nothing below the lowest of them is looked at."""
        rank, children = self.rank, self.children
        if rank[start] < lowest:
            return 0
        found = 0
        seen = {start}
        stack = [start]
        while stack:
            c = stack.pop()
            if c in own:
                found |= own[c]
                if found == everything:
                    break
            for d in children[c]:
                if d not in seen and rank[d] >= lowest:
                    seen.add(d)
                    stack.append(d)
        return found

    def unite(self, a: int, b: int) -> None:
        reached = self.reach((a, b))
        for c, other in ((a, 2), (b, 1)):
            for d in [d for d in self.children[c] if reached(d) & other]:
                self.children[c].remove(d)
                self.parents[d].remove(c)
        kids, users = self.children.pop(a), self.parents.pop(a)
        for d in kids:
            self.parents[d].remove(a)
        for p in users:
            self.children[p].remove(a)
        self.alias[a] = b
        self.depend(b, kids)
        for p in users:
            self.depend(p, (b,))

    def depend(self, parent: int, children: Iterable[int]) -> None:
        for child in children:
            if child not in self.children[parent]:
                self._add(parent, child)

    def _add(self, parent: int, child: int) -> None:
        rank = self.rank
        low, high = rank[parent], rank[child]
        if low < high:
            down = self._between(child, self.children, low, high)
            up = self._between(parent, self.parents, low, high)
            ranks = sorted(rank[c] for c in (*down, *up))
            ordered = [*sorted(down, key=rank.__getitem__), *sorted(up, key=rank.__getitem__)]
            for c, r in zip(ordered, ranks, strict=True):
                rank[c] = r
        self.children[parent].add(child)
        self.parents[child].add(parent)

    def _between(self, start: int, edges: dict[int, set[int]], low: int, high: int) -> set[int]:
        """What is reached over e-classes with ranks from ``low`` to ``high``."""
        rank = self.rank
        seen = {start}
        stack = [start]
        while stack:
            for d in edges[stack.pop()]:
                if d not in seen and low <= rank[d] <= high:
                    seen.add(d)
                    stack.append(d)
        return seen


CHECKERS: dict[Cycles, Callable[[ClassGraph], Checker]] = {
    "vanilla": Vanilla,
    "efficient": Efficient,
    "incremental": Incremental,
}
