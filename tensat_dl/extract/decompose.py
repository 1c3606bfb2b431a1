"""Decomposition: parts that are connected only through classes of every derivation are solved apart."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from tensat_dl.extract.problem import Choice, Problem, strong_components
from tensat_dl.extract.reduce import Reduced


def pieces(reduced: Reduced) -> tuple[list[Problem], Choice]:
    """Independent problems, and the classes without a choice.

    The roots of a piece are its forced classes. Arcs into forced classes of other pieces are ignored: those are
    derived in any case, and pieces that could be derived from one another are one piece. So best answers for the
    pieces together are a best answer for the whole. Pieces come smallest first.
    """
    problem, forced = reduced.problem, reduced.forced
    # Whatever hangs together is strongly connected here, and forced classes that can be derived from each other.
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
    """Equal for pieces that differ in the numbers of their classes and e-nodes alone: repeated blocks."""
    position = {c: i for i, c in enumerate(piece.nodes)}
    return tuple(position[r] for r in piece.roots), tuple(
        tuple((piece.cost[n], n in preferred, *(position[d] for d in piece.kids[n])) for n in ns)
        for ns in piece.nodes.values()
    )


def transferred(choice: Choice, piece: Problem, other: Problem) -> Choice:
    """A choice for one piece as a choice for another of the same shape."""
    classes = list(other.nodes)
    return {
        classes[i]: other.nodes[classes[i]][ns.index(choice[c])]
        for i, (c, ns) in enumerate(piece.nodes.items())
        if c in choice
    }
