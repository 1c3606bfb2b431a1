"""Contraction: classes without a choice disappear into the e-nodes that use them."""

from __future__ import annotations

from dataclasses import replace

from tensat_dl.extract.problem import Choice, Problem

#: A class with several users is contracted only if that adds at most this many arcs: e-nodes of long chains
#: would otherwise collect all that lies below them.
_MAX_NEW_ARCS = 2


def contract(problem: Problem, keep: frozenset[int]) -> Problem:
    """The problem without classes that have one candidate and either no cost or a single user.

    The users take over the children and the cost. The classes of ``keep`` and the roots stay.
    The problem must have no classes without a derivation (see `prune`).
    """
    kids = dict(problem.kids)
    cost = dict(problem.cost)
    nodes = dict(problem.nodes)
    inlined = dict(problem.inlined)
    users: dict[int, set[int]] = {c: set(ns) for c, ns in problem.parents().items()}
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
            kids[user] = tuple(dict.fromkeys(e for d in kids[user] for e in (below if d == c else (d,))))
            cost[user] += cost[n]
            for d in below:
                users[d].add(user)
    # An e-node that took over its own class as a child needs itself; another candidate remains.
    nodes = {c: tuple(n for n in ns if c not in kids[n]) for c, ns in nodes.items()}
    left = [n for ns in nodes.values() for n in ns]
    kids = {n: kids[n] for n in left}
    cost = {n: cost[n] for n in left}
    return replace(problem, nodes=nodes, kids=kids, cost=cost, inlined=inlined)


def expand(problem: Problem, choice: Choice) -> Choice:
    """A choice of the problem with the classes that were contracted on the way to it."""
    return {**problem.inlined, **choice}
