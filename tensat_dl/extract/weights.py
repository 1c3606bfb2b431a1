"""How an answer derives what it computes from weights alone, once and ahead of time.

That costs nothing at run time, so extraction leaves it open. Here it takes the fewest bytes of results, each of which
counts once: less memory and less work ahead of time, and fewer lines in the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.exact import improve
from tensat_dl.extract.greedy import settle, tree_greedy
from tensat_dl.extract.incumbent import Incumbent, source_nodes
from tensat_dl.extract.problem import Choice, Problem, prune

#: Work units of looking for fewer bytes than greedy choices take, in problems of at most so many e-nodes: nothing
#: that a user waits for.
_WORK = 100_000.0
_MOST = 5_000


def fewest_bytes(egraph: EGraph, choices: Mapping[int, int], opaque: Collection[str] = ()) -> Choice:
    """An e-node for each weights-only e-class that these choices for all others need.

    An opaque operator may share an e-class with an e-node that can be computed, but can't be computed itself. Raises
    KeyboardInterrupt.
    """
    problem = _problem(egraph, choices, opaque)
    preferred = source_nodes(egraph)
    best = Incumbent(problem)
    best.offer(tree_greedy(problem, preferred))
    if any(len(ns) > 1 for ns in problem.nodes.values()):
        best.offer(_sharing_greedy(problem, preferred))
        if problem.num_nodes <= _MOST:
            budget = Budget.of(ExtractLimits(work=_WORK))
            improve(problem, best, preferred, budget)
            if budget.interrupted:
                raise KeyboardInterrupt
    return best.choice


def _problem(egraph: EGraph, choices: Mapping[int, int], opaque: Collection[str]) -> Problem:
    """The choice of e-nodes for the weights-only e-classes, each at the bytes of its results."""
    ahead: list[bool] = egraph.weights_only.tolist()
    roots: list[int] = []
    nodes: dict[int, tuple[int, ...]] = {}
    kids: dict[int, tuple[int, ...]] = {}
    cost: dict[int, float] = {}
    seen = set(egraph.roots)
    stack = list(seen)
    while stack:
        c = stack.pop()
        if not ahead[c]:
            below = set(egraph.children_of(choices[c]))
            roots += [d for d in below if ahead[d]]
        else:
            able = (n for n in egraph.nodes_of(c) if egraph.op[n] not in opaque and egraph.op[n] != "input")
            own = {n: tuple(dict.fromkeys(egraph.children_of(n))) for n in able}
            own = {n: ds for n, ds in own.items() if all(ahead[d] for d in ds)}
            nodes[c] = tuple(own)
            kids |= own
            cost |= dict.fromkeys(own, float(sum(t.nbytes for t in egraph.types[c])))
            below = {d for ds in own.values() for d in ds}
        stack += below - seen
        seen |= below
    roots += [c for c in egraph.roots if ahead[c]]
    whole = Problem(tuple(sorted(set(roots))), nodes, kids, cost, egraph.node_class.tolist())
    possible = prune(whole, nodes)
    assert possible is not None, "the input program computes its weights"
    return possible


def _sharing_greedy(problem: Problem, preferred: frozenset[int]) -> Choice:
    """A choice that counts on others to share what they could: an e-class is paid for in equal parts by all that have
    an e-node with it as a child. So of products of the same chain of weights those win that begin alike."""
    users = {c: len({problem.home[n] for n in ns}) for c, ns in problem.parents().items()}
    value: dict[int, float] = {}
    return settle(
        problem,
        value,
        lambda n: problem.cost[n] + sum(value[d] / users[d] for d in problem.kids[n]),
        preferred,
    )
