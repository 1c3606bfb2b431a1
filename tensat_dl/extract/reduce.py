"""Smaller problems with the same best answer: fewer e-nodes, contracted e-classes, pieces.

An e-node is dropped if no derivation, or none cheaper than a known one, needs it: because it needs its own e-class,
because another e-node replaces it, because its landmarks cost too much, or because of reduced costs.

An e-node adds its own reduced cost to a bound at least, and the reduced costs of a way through it. The e-node is
there because something needs it, up to a class that every answer has, and its children are derived, down to an e-node
without any. An answer has no cycles, so no e-node is met twice, and all that are met pay: on the cheapest way up, and
below from each e-node on to its dearest child.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from tensat_dl.extract.extraction import TOLERANCE
from tensat_dl.extract.greedy import settle
from tensat_dl.extract.landmarks import Landmarks, landmarks
from tensat_dl.extract.problem import Choice, Problem, prune, strong_components

#: Comparisons of one e-node with cheaper ones of its class.
MAX_COMPARISONS = 50

#: Above this many e-classes, sets of e-classes as bits would take gigabytes: such a problem is solved in pieces only.
LARGEST = 60_000

#: Another round follows one that leaves less than this share of the e-nodes; less than the second share where there
#: are at least so many.
_GAIN = 0.99
_LEAST_GAIN = 0.9
_LARGE = 3000

#: Where reduced costs leave more than this share of the e-nodes, reducing again takes more time than it saves.
_KEPT = 0.95

#: A class with several users is contracted only if that adds at most this many arcs: e-nodes of long chains
#: would otherwise collect all that lies below them.
_MAX_NEW_ARCS = 2


@dataclass(frozen=True, slots=True)
class Reduced:
    """A problem that further reduction would change little, with its forced classes and bound."""

    problem: Problem
    marks: Landmarks | None  #: None if there are none yet, or the problem is too large for them
    forced: frozenset[int]  #: classes in every derivation of the roots
    bound: float  #: the cheapest e-nodes of all forced classes: no derivation costs less


def reduce(problem: Problem, upper: float, preferred: frozenset[int] = frozenset()) -> Reduced | None:
    """The problem without e-nodes that are in no derivation cheaper than ``upper``; None if none is left.

    Some derivation among the cheapest of those survives. Where dropping one or another e-node makes no
    difference, ``preferred`` e-nodes and then those with the lowest number stay.
    """
    return reduce_contracted(contract(problem, frozenset()), upper, preferred)


def reduce_contracted(problem: Problem, upper: float, preferred: frozenset[int]) -> Reduced | None:
    """As `reduce`, of a contracted problem."""
    cutoff = upper * (1 - TOLERANCE)
    if len(problem.nodes) > LARGEST:
        problem = thinned(problem, preferred)
    if len(problem.nodes) > LARGEST:
        large = forced_at_sight(problem)
        return None if large.bound >= cutoff else large
    while True:
        marks = landmarks(problem)
        forced = marks.of_kids(problem.roots)
        minima = {c: min(problem.cost[n] for n in ns) for c, ns in problem.nodes.items()}
        base = sum(minima[c] for c in problem.nodes if forced >> marks.bit[c] & 1)
        kept: dict[int, list[int]] = {}
        below: dict[int, int] = {}
        for c, ns in problem.nodes.items():
            alive = []
            for n in ns:
                below[n] = marks.of_kids(problem.kids[n])
                if not below[n] >> marks.bit[c] & 1:  # else the e-node cannot do without its own class
                    alive.append(n)
            kept[c] = _undominated(problem, c, alive, below, marks, forced, preferred)
        _drop_expensive(problem, kept, below, marks, forced, minima, cutoff - base)
        smaller = prune(problem, kept)
        if smaller is None or base >= cutoff:
            return None
        enough = _GAIN if smaller.num_nodes < _LARGE else _LEAST_GAIN
        if smaller.num_nodes >= enough * problem.num_nodes:
            classes = frozenset(c for c in smaller.nodes if forced >> marks.bit[c] & 1)
            contracted = contract(smaller, classes)
            if len(contracted.nodes) >= enough * len(smaller.nodes):
                return Reduced(smaller, marks, classes, base)
            smaller = contracted
        problem = smaller


def thinned(problem: Problem, preferred: frozenset[int] = frozenset()) -> Problem:
    """The problem without e-nodes that another one of their class replaces, as it costs no more and needs none but
    their children. Takes time and memory in proportion to the problem."""
    while True:
        kept = {c: _cheapest(problem, ns, preferred) for c, ns in problem.nodes.items()}
        smaller = prune(problem, kept)
        assert smaller is not None, "what replaces an e-node can be derived where it can"
        smaller = contract(smaller, frozenset())
        if smaller.num_nodes >= _LEAST_GAIN * problem.num_nodes:
            return smaller
        problem = smaller


def _cheapest(problem: Problem, candidates: tuple[int, ...], preferred: frozenset[int]) -> list[int]:
    """The candidates of a class that none of the others replaces."""
    if len(candidates) < 2:
        return list(candidates)
    cost, kids = problem.cost, problem.kids
    order = sorted(candidates, key=lambda n: (cost[n], len(kids[n]), n not in preferred, n))
    winners: list[tuple[int, frozenset[int]]] = []
    for n in order:
        own = frozenset(kids[n])
        if not any(other <= own for _, other in winners[:MAX_COMPARISONS]):
            winners.append((n, own))
    return sorted(n for n, _ in winners)


def forced_at_sight(problem: Problem) -> Reduced:
    """The problem, with those forced classes that are easily seen to be: the roots, and what all candidates of a
    forced class have as a child."""
    forced: set[int] = set()
    stack = list(problem.roots)
    while stack:
        c = stack.pop()
        if c not in forced:
            forced.add(c)
            first, *others = (problem.kids[n] for n in problem.nodes[c])
            stack += set(first).intersection(*others)
    base = sum(min(problem.cost[n] for n in problem.nodes[c]) for c in forced)
    return Reduced(problem, None, frozenset(forced), base)


def forced_bound(problem: Problem) -> float:
    """A quick lower bound: the cheapest e-node of each class in every derivation of the roots."""
    if len(problem.nodes) > LARGEST:
        problem = thinned(problem)
    if len(problem.nodes) > LARGEST:
        return forced_at_sight(problem).bound
    marks = landmarks(problem)
    forced = marks.of_kids(problem.roots)
    return sum(
        min(problem.cost[n] for n in ns) for c, ns in problem.nodes.items() if forced >> marks.bit[c] & 1
    )


def _undominated(
    problem: Problem,
    c: int,
    candidates: list[int],
    below: dict[int, int],
    marks: Landmarks,
    forced: int,
    preferred: frozenset[int],
) -> list[int]:
    """The candidates of a class without those that another candidate can replace in every derivation.

    e-node A replaces B if it costs no more and its children are there whenever B is chosen, without depending
    on the class: they are landmarks of B, or forced classes from which the class cannot be reached.
    """
    if len(candidates) < 2:
        return candidates
    cost = problem.cost
    free = forced & ((1 << marks.first[c]) - 1)
    order = sorted(candidates, key=lambda n: (cost[n], len(problem.kids[n]), n not in preferred, n))
    winners: list[tuple[int, int]] = []
    for n in order:
        missing = ~(below[n] | free)
        for _, kids in winners[:MAX_COMPARISONS]:
            if not kids & missing:
                break
        else:
            winners.append((n, marks.mask(problem.kids[n])))
    return sorted(n for n, _ in winners)


def _drop_expensive(
    problem: Problem,
    kept: dict[int, list[int]],
    below: dict[int, int],
    marks: Landmarks,
    forced: int,
    minima: dict[int, float],
    slack: float,
) -> None:
    """Drops e-nodes whose landmarks, with the forced classes, cost too much at their cheapest."""
    paying = marks.mask(c for c in problem.nodes if minima[c] > 0) & ~forced
    for c, candidates in kept.items():
        fixed = bool(forced >> marks.bit[c] & 1)
        alive = []
        for n in candidates:
            extra = problem.cost[n] - (minima[c] if fixed else 0.0)
            bits = below[n] & paying
            while bits and extra < slack:
                low = bits & -bits
                extra += minima[marks.classes[low.bit_length() - 1]]
                bits ^= low
            if extra < slack:
                alive.append(n)
        kept[c] = alive


def contract(problem: Problem, keep: frozenset[int]) -> Problem:
    """The problem without classes that have one candidate and either no cost or a single user.

    The users take over the children and the cost. The classes of ``keep`` and the roots stay.
    The problem must have no classes without a derivation (see `prune`).
    """
    kids = {n: set(ds) for n, ds in problem.kids.items()}
    cost = dict(problem.cost)
    nodes = dict(problem.nodes)
    inlined = dict(problem.inlined)
    users = {c: set(ns) for c, ns in problem.parents().items()}
    for c in problem.nodes:
        if c in keep or c in problem.roots or len(nodes[c]) > 1:
            continue
        (n,) = nodes[c]
        below, above = kids[n], users[c]
        if len(above) > 1 and cost[n] > 0:
            continue
        if len(above) > 1 and len(above) * len(below) - len(above) - len(below) > _MAX_NEW_ARCS:
            continue
        del nodes[c], users[c]
        inlined[c] = n
        for d in below:
            users[d].discard(n)
        for user in sorted(above):
            kids[user].remove(c)
            kids[user] |= below
            cost[user] += cost[n]
            for d in below:
                users[d].add(user)
    # An e-node that took over its own class as a child needs itself; another candidate remains.
    nodes = {c: tuple(n for n in ns if c not in kids[n]) for c, ns in nodes.items()}
    left = [n for ns in nodes.values() for n in ns]
    cost = {n: cost[n] for n in left}
    return replace(
        problem, nodes=nodes, kids={n: _kids(problem, n, inlined) for n in left}, cost=cost, inlined=inlined
    )


def _kids(problem: Problem, n: int, inlined: Mapping[int, int]) -> tuple[int, ...]:
    """The children of an e-node, in argument order, with those of contracted classes in place of these classes."""
    found: dict[int, None] = {}
    stack = [*reversed(problem.kids[n])]
    while stack:
        d = stack.pop()
        if d not in found:
            found[d] = None
            if d in inlined:
                stack += reversed(problem.kids[inlined[d]])
    return tuple(d for d in found if d not in inlined)


def fixed(
    reduced: Reduced, rising: Callable[[int], float], bound: float, upper: float, preferred: frozenset[int]
) -> Reduced | None:
    """The problem without e-nodes with which the bound rises to ``upper``: no cheaper answer has one.

    ``rising`` is the reduced cost of an e-node. None if nothing is left.
    """
    slack = upper * (1 - TOLERANCE) - bound
    if slack <= 0:
        return None
    added = detours(reduced.problem, reduced.forced, rising)
    nodes = {c: [n for n in ns if added.get(n, slack) < slack] for c, ns in reduced.problem.nodes.items()}
    smaller = prune(reduced.problem, nodes)
    if smaller is None:
        return None
    if smaller.num_nodes > _KEPT * reduced.problem.num_nodes:
        return reduced
    return reduce(smaller, upper, preferred)


def detours(problem: Problem, forced: Collection[int], rising: Callable[[int], float]) -> dict[int, float]:
    """The least that an e-node adds to a bound, for each e-node that an answer can have."""
    price = {n: rising(n) for n in problem.candidates()}
    height: dict[int, float] = {}

    def below(n: int) -> float:
        """The cost of an e-node with that of its dearest child, and so on down."""
        return price[n] + max((height[d] for d in problem.kids[n]), default=0.0)

    settle(problem, height, below)
    above = _above(problem, forced, price)
    return {
        n: below(n) + above[problem.home[n]]
        for n in price
        if problem.home[n] in above and all(d in height for d in problem.kids[n])
    }


def _above(problem: Problem, forced: Collection[int], price: dict[int, float]) -> dict[int, float]:
    """For each e-class the cost of the cheapest way down to it from a class that every answer has."""
    heap = [(0.0, c) for c in forced]
    heapify(heap)
    found: dict[int, float] = {}
    while heap:
        value, c = heappop(heap)
        if c in found:
            continue
        found[c] = value
        for n in problem.nodes[c]:
            for d in problem.kids[n]:
                if d not in found:
                    heappush(heap, (value + price[n], d))
    return found


def pieces(reduced: Reduced) -> tuple[list[Problem], Choice]:
    """Independent problems, and the classes without a choice.

    The roots of a piece are its forced classes. Arcs into forced classes of other pieces are ignored: those are
    derived in any case, and pieces that could be derived from one another are one piece. So best answers for the
    pieces together are a best answer for the whole. Pieces come smallest first.
    """
    problem, forced = reduced.problem, reduced.forced
    # Connected classes are strongly connected here, and forced classes that can be derived from each other.
    near: dict[int, list[int]] = {c: [] for c in problem.nodes}
    for c, successors in problem.successors().items():
        for d in successors:
            near[c].append(d)
            if d not in forced:
                near[d].append(c)
    settled: Choice = {}
    found: list[Problem] = []
    for component in strong_components(near, near):
        group = set(component)
        if all(len(problem.nodes[c]) == 1 for c in group):
            settled.update((c, problem.nodes[c][0]) for c in group)
            continue
        roots = tuple(c for c in sorted(group) if c in forced)
        nodes = {c: problem.nodes[c] for c in sorted(group)}
        own = [n for ns in nodes.values() for n in ns]
        kids = {n: tuple(d for d in problem.kids[n] if d not in forced or d in group) for n in own}
        cost = {n: problem.cost[n] for n in own}
        found.append(replace(problem, roots=roots, nodes=nodes, kids=kids, cost=cost, inlined={}))
    return sorted(found, key=lambda p: p.num_nodes), settled


def shape(piece: Problem, preferred: frozenset[int]) -> Hashable:
    """A key that is equal for pieces that differ only in the numbers of their classes and e-nodes: repeated
    blocks."""
    position = {c: i for i, c in enumerate(piece.nodes)}
    return tuple(position[r] for r in piece.roots), tuple(
        tuple((piece.cost[n], n in preferred, *(position[d] for d in piece.kids[n])) for n in ns)
        for ns in piece.nodes.values()
    )


def places(choice: Choice, piece: Problem) -> list[int]:
    """For each class of a piece the place of its choice among its e-nodes, -1 if it has none: the choice, for all
    pieces of the same shape."""
    return [ns.index(choice[c]) if c in choice else -1 for c, ns in piece.nodes.items()]


def placed(places: Sequence[int], piece: Problem) -> Choice:
    """The choice of these places for a piece."""
    return {c: ns[i] for (c, ns), i in zip(piece.nodes.items(), places, strict=True) if i >= 0}
