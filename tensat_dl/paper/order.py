"""The ``incremental`` mode of cycle filtering: a topological order of e-classes that is kept up to date."""

from __future__ import annotations

from collections.abc import Iterable

from tensat_dl.paper.cycles import ClassGraph, Mirror, OutputEffect, Reached, children_first


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

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        for o in outputs:
            if o.same is not None:
                self._unite(self.find(o.source), self.find(o.same))
        for o in outputs:
            source = self.find(o.source)
            for leaf in o.leaves:
                self._add(source, self.find(leaf))

    def _unite(self, a: int, b: int) -> None:
        """Makes ``a`` another name of ``b``. Children of one that lead to the other are forms that the post-filter
        will drop."""
        if a == b:
            return
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
        for d in kids:
            self._add(b, d)
        for p in users:
            self._add(p, b)

    def _add(self, parent: int, child: int) -> None:
        """Adds an edge that closes no cycle."""
        if child in self.children[parent]:
            return
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
