"""Decomposition: what hangs together only through classes of every derivation can be solved apart."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from tensat_dl.extract.problem import Choice, Problem
from tensat_dl.extract.reduce import Reduced


def pieces(reduced: Reduced) -> tuple[list[Problem], Choice]:
    """Problems that are independent but for cycles through forced classes, and what is left to no choice.

    The roots of a piece are its forced classes, and arcs into forced classes are ignored. So the costs of
    best answers for the pieces add up to a lower bound for the whole, and to its optimum if their union is
    acyclic. Pieces come smallest first.
    """
    problem, forced = reduced.problem, reduced.forced
    leader = {c: c for c in problem.nodes}

    def find(c: int) -> int:
        while leader[c] != c:
            leader[c] = leader[leader[c]]
            c = leader[c]
        return c

    for c, ns in problem.nodes.items():
        for n in ns:
            for d in problem.kids[n]:
                if d not in forced:
                    leader[find(c)] = find(d)
    groups: dict[int, list[int]] = {}
    for c in problem.nodes:
        groups.setdefault(find(c), []).append(c)
    settled: Choice = {}
    found: list[Problem] = []
    for group in groups.values():
        if all(len(problem.nodes[c]) == 1 for c in group):
            settled.update((c, problem.nodes[c][0]) for c in group)
            continue
        roots = tuple(c for c in group if c in forced)
        nodes = {c: problem.nodes[c] for c in group}
        own = [n for ns in nodes.values() for n in ns]
        kids = {n: tuple(d for d in problem.kids[n] if d not in forced) for n in own}
        cost = {n: problem.cost[n] for n in own}
        found.append(replace(problem, roots=roots, nodes=nodes, kids=kids, cost=cost, inlined={}))
    return sorted(found, key=lambda p: p.num_nodes), settled


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known about a piece, by positions: of each class in it, and of an e-node in its class."""

    picks: tuple[tuple[int, int], ...]
    bound: float


def shape(piece: Problem, preferred: frozenset[int]) -> Hashable:
    """Equal for pieces that differ in the numbers of their classes and e-nodes alone: repeated blocks."""
    position = {c: i for i, c in enumerate(piece.nodes)}
    return tuple(position[r] for r in piece.roots), tuple(
        tuple((piece.cost[n], n in preferred, *(position[d] for d in piece.kids[n])) for n in ns)
        for ns in piece.nodes.values()
    )


def by_position(piece: Problem, choice: Choice, bound: float) -> Answer:
    picks = ((i, ns.index(choice[c])) for i, (c, ns) in enumerate(piece.nodes.items()) if c in choice)
    return Answer(tuple(picks), bound)


def by_number(piece: Problem, answer: Answer) -> Choice:
    """The answer of one piece as a choice for another of the same shape."""
    classes = list(piece.nodes)
    return {classes[i]: piece.nodes[classes[i]][k] for i, k in answer.picks}
