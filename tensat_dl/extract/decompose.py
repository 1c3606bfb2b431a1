"""Decomposition: what hangs together only through classes of every derivation can be solved apart."""

from __future__ import annotations

from dataclasses import replace

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

    kids = {
        n: tuple(d for d in problem.kids[n] if d not in forced) for ns in problem.nodes.values() for n in ns
    }
    for c, ns in problem.nodes.items():
        for n in ns:
            for d in kids[n]:
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
        found.append(replace(problem, roots=roots, nodes=nodes, kids=kids, inlined={}))
    return sorted(found, key=lambda p: p.num_nodes), settled
