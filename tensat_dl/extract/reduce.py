"""Reductions: drop e-nodes that no derivation, or no better derivation than a known one, needs."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.extract.contract import contract
from tensat_dl.extract.landmarks import Landmarks, landmarks
from tensat_dl.extract.problem import Problem, prune
from tensat_dl.extract.types import TOLERANCE

#: Comparisons of one e-node with cheaper ones of its class.
MAX_COMPARISONS = 50

#: With this many e-nodes a round must leave less than this share of them for another one to follow.
_LARGE = 3000
_LEAST_GAIN = 0.9


@dataclass(frozen=True, slots=True)
class Reduced:
    """A problem that further reduction would change little, with its forced classes and bound."""

    problem: Problem
    marks: Landmarks
    forced: frozenset[int]  #: classes in every derivation of the roots
    bound: float  #: what any derivation costs at least: the cheapest e-node of each forced class


def reduce(problem: Problem, upper: float, preferred: frozenset[int] = frozenset()) -> Reduced | None:
    """The problem without e-nodes that are in no derivation cheaper than ``upper``; None if none is left.

    Some derivation among the cheapest of those survives. Where dropping one or another e-node makes no
    difference, ``preferred`` e-nodes and then those with the lowest number stay.
    """
    cutoff = upper * (1 - TOLERANCE)
    problem = contract(problem, frozenset())
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
        enough = 1.0 if smaller.num_nodes < _LARGE else _LEAST_GAIN
        if smaller.num_nodes >= enough * problem.num_nodes:
            classes = frozenset(c for c in smaller.nodes if forced >> marks.bit[c] & 1)
            contracted = contract(smaller, classes)
            if len(contracted.nodes) >= enough * len(smaller.nodes):
                return Reduced(smaller, marks, classes, base)
            smaller = contracted
        problem = smaller


def forced_bound(problem: Problem) -> float:
    """A quick lower bound: the cheapest e-node of each class in every derivation of the roots."""
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
