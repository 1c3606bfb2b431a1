"""Dual ascent: loop cuts and a bound from prices alone, before any linear program.

The height of an e-class is the least over its e-nodes of the e-node's price and its children's greatest height: the
least cost of the dearest way down from it. Take a forced class of positive height, follow from each e-node of price
zero its highest child, and collect the e-classes met. No derivation reaches this set but by an e-node whose highest
child is outside; these all have a price, so the forced class costs at least the least of their prices. Lower them by
that and go on until all heights are zero: the sum of these prices is a bound, each step is a loop cut, and the
prices left are reduced costs. In planning this is the heuristic LM-cut (Helmert and Domshlak, "Landmarks, critical
paths and abstractions", 2009), there for a goal, here for all forced classes.

At the reduced costs of the linear program instead of the prices it finds cuts by which the bound must rise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from tensat_dl.extract.budget import Budget
from tensat_dl.extract.loops import Loop
from tensat_dl.extract.problem import Problem

#: The scale of prices: heights are whole numbers, so that zeros are exact. The answer so far costs this much.
_UNITS = 1e15

#: The share of the bound that rounding can add.
_ROUNDING = 1e-12

#: Cuts for one goal before heights are brought up to date, which takes most of the time. With more of them the bound
#: gets worse.
_STEPS = 4

#: Work units of looking at one e-node once.
_WORK_PER_NODE = 0.35

#: The height of an e-class without a derivation.
_INFINITE = 1 << 200


@dataclass(frozen=True, slots=True)
class Ascended:
    """The result of one ascent."""

    bound: float
    loops: list[Loop]  #: for each cut the forced class and the set that it is in
    left: dict[int, float]  #: reduced costs of e-nodes, where they are not zero

    def reduced_cost(self, n: int) -> float:
        """The least that choosing an e-node adds to the bound."""
        return self.left.get(n, 0.0)


class Ascent:
    """Ascents on one problem, of which e-classes and e-nodes are numbered from 0.

    A forced class is derived in any case, by cuts of its own. So it is no child here, except where it may depend on
    its parent: in the same strong component.
    """

    def __init__(self, problem: Problem, forced: Collection[int]) -> None:
        component = {c: i for i, members in enumerate(problem.components()) for c in members}
        self.classes = list(problem.nodes)
        index = {c: i for i, c in enumerate(self.classes)}
        self.goals = [index[c] for c in sorted(forced)]
        self.nodes = list(problem.candidates())  #: as the problem numbers them
        self.home = [index[problem.home[n]] for n in self.nodes]
        self.kids: list[list[int]] = []
        self.members: list[list[int]] = [[] for _ in self.classes]  #: e-nodes of each class
        self.users: list[list[int]] = [[] for _ in self.classes]
        for k, n in enumerate(self.nodes):
            c = problem.home[n]
            kids = [index[d] for d in problem.kids[n] if d not in forced or component[d] == component[c]]
            self.kids.append(kids)
            self.members[index[c]].append(k)
            for d in kids:
                self.users[d].append(k)

    def run(self, price: Callable[[int], float], cost: float, budget: Budget) -> Ascended:
        """Climbs as far as the budget goes, at each e-node's ``price``. ``cost`` is the cost of the answer so far."""
        # No answer of interest has an e-node that costs more than the whole answer so far.
        prices = [int(min(price(n) / cost, 1.0) * _UNITS) for n in self.nodes]
        heights = _Heights(self, prices)
        budget.charge(_WORK_PER_NODE * len(prices))
        height = heights.height
        highest = [(-height[g], g) for g in self.goals if height[g]]
        heapify(highest)
        total = 0
        loops: list[Loop] = []
        while highest and not budget.exhausted:
            negative, goal = highest[0]
            if height[goal] != -negative:  # it has come down since
                heappop(highest)
                if height[goal]:
                    heappush(highest, (-height[goal], goal))
                continue
            zone = _Zone(self, heights, goal)
            cheaper: set[int] = set()
            for _ in range(_STEPS):
                entering = zone.entering()
                if not entering:
                    break
                least = min(prices[n] for n in entering)
                total += least
                loops.append((self.classes[goal], [self.classes[c] for c in zone.classes]))
                for n in entering:
                    prices[n] -= least
                cheaper.update(entering)
            budget.charge(_WORK_PER_NODE * (zone.seen + heights.lower(sorted(cheaper))))
        left = {n: p / _UNITS * cost for n, p in zip(self.nodes, prices, strict=True) if p}
        return Ascended(total / _UNITS * cost * (1 - _ROUNDING), loops, left)


class _Zone:
    """The e-classes that a goal rests on at no price, by the highest children as they are.

    It grows as prices fall.
    """

    def __init__(self, graph: Ascent, heights: _Heights, goal: int) -> None:
        self.classes = [goal]
        self.seen = 0  #: how many e-nodes were looked at
        self._members = graph.members
        self._prices = heights.prices
        self._support = heights.support
        self._found = {goal}
        self._expanded = 0
        self._priced: list[int] = []

    def entering(self) -> list[int]:
        """The e-nodes that lead into the zone from outside; none if it has come down to where nothing is needed."""
        support, prices, found = self._support, self._prices, self._found
        todo = [n for n in self._priced if not prices[n]]
        priced = [n for n in self._priced if prices[n]]
        while True:
            for n in todo:
                d = support[n]
                if d == _LEAF:
                    return []
                if d != _UNDERIVED and d not in found:
                    found.add(d)
                    self.classes.append(d)
            if self._expanded == len(self.classes):
                break
            members = self._members[self.classes[self._expanded]]
            self._expanded += 1
            self.seen += len(members)
            todo = [n for n in members if not prices[n]]
            priced += [n for n in members if prices[n]]
        self._priced = [n for n in priced if support[n] not in found and support[n] != _UNDERIVED]
        return self._priced


#: The highest child of an e-node without children, and of an e-node without a derivation.
_LEAF = -1
_UNDERIVED = -2


class _Heights:
    """The height of each e-class and the highest child of each e-node, kept up to date as prices fall."""

    def __init__(self, graph: Ascent, prices: list[int]) -> None:
        self.prices = prices
        self._graph = graph
        home, kids, users = graph.home, graph.kids, graph.users
        self.height = [_INFINITE] * len(users)
        self.support = [_UNDERIVED if ks else _LEAF for ks in kids]
        self._top = [0] * len(kids)  #: the height of the highest child
        waiting = [len(ks) for ks in kids]
        heap = [(prices[n], home[n]) for n in range(len(kids)) if not waiting[n]]
        heapify(heap)
        while heap:
            value, c = heappop(heap)
            if value >= self.height[c]:
                continue
            self.height[c] = value
            for n in users[c]:
                waiting[n] -= 1
                if not waiting[n]:  # the highest child comes last
                    self.support[n], self._top[n] = c, value
                    if value + prices[n] < self.height[home[n]]:
                        heappush(heap, (value + prices[n], home[n]))

    def lower(self, nodes: list[int]) -> int:
        """Updates heights after these e-nodes have become cheaper. Returns the number of e-nodes visited."""
        height, support, top = self.height, self.support, self._top
        prices, home, kids, users = self.prices, self._graph.home, self._graph.kids, self._graph.users
        heap = [(top[n] + prices[n], home[n]) for n in nodes if top[n] + prices[n] < height[home[n]]]
        heapify(heap)
        seen = len(nodes)
        while heap:
            value, c = heappop(heap)
            if value >= height[c]:
                continue
            height[c] = value
            seen += len(users[c])
            for n in users[c]:
                if support[n] == c:  # another child may be higher now
                    highest, most = c, value
                    for d in kids[n]:
                        if height[d] > most:
                            highest, most = d, height[d]
                    support[n], top[n] = highest, most
                    if most + prices[n] < height[home[n]]:
                        heappush(heap, (most + prices[n], home[n]))
        return seen
