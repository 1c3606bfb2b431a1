"""The extraction problem: an e-graph without all that does not matter to choosing e-nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import fsum

import numpy as np

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.words import counted
from tensat_dl.extract.extraction import ExtractionError

#: Costs beyond these could not be added up, or not be scaled for solvers.
LEAST_COST, MOST_COST = 1e-200, 1e200

#: One e-node for each chosen e-class.
Choice = dict[int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """Candidates for each e-class. Classes and e-nodes keep the numbers they have in the `EGraph`.

    Weights-only classes are gone: they cost nothing and are there anyway. Reducing a problem makes another
    one with fewer entries; contraction moves children and costs. A problem's size is that of its own e-nodes,
    so that many small parts of a large one take no more than the large one.
    """

    roots: tuple[int, ...]  #: classes to derive, each once
    nodes: Mapping[int, tuple[int, ...]]  #: candidate e-nodes of each class, ascending
    kids: Mapping[int, tuple[int, ...]]  #: distinct child classes of each e-node, in argument order
    cost: Mapping[int, float]  #: of each e-node
    home: list[int]  #: e-class of each e-node
    inlined: Mapping[int, int] = field(default_factory=dict)  #: e-node of each contracted class

    @property
    def num_nodes(self) -> int:
        return sum(map(len, self.nodes.values()))

    def candidates(self) -> Iterator[int]:
        """The e-nodes of all classes."""
        return chain.from_iterable(self.nodes.values())

    def successors(self) -> dict[int, tuple[int, ...]]:
        """For each class the distinct children of all its candidates."""
        kids = self.kids
        return {c: tuple(dict.fromkeys(d for n in ns for d in kids[n])) for c, ns in self.nodes.items()}

    def parents(self) -> dict[int, list[int]]:
        """For each class the candidate e-nodes that have it as a child."""
        users: dict[int, list[int]] = {c: [] for c in self.nodes}
        for n in self.candidates():
            for d in self.kids[n]:
                users[d].append(n)
        return users

    def components(self) -> list[list[int]]:
        """The strongly connected components of the classes, each after all components that it reaches."""
        return strong_components(self.nodes, self.successors())

    def total(self, choice: Choice) -> float:
        """Cost of a choice; correctly rounded, so it does not depend on the order of summation."""
        return fsum(self.cost[n] for n in choice.values())

    def expanded(self, choice: Choice) -> Choice:
        """A choice with the classes that were contracted on the way to the problem."""
        return {**self.inlined, **choice}


def check_costs(egraph: EGraph) -> None:
    """Raises `ExtractionError` for a cost that is negative, not finite or out of range."""
    relevant = ~egraph.weights_only[egraph.node_class]
    cost = egraph.cost
    beyond = (cost > 0) & ((cost < LEAST_COST) | (cost > MOST_COST))
    for wrong, needs in (
        (~(np.isfinite(cost) & (cost >= 0)), "costs must be finite and not negative"),
        (beyond, f"costs other than 0 must be from {LEAST_COST:g} to {MOST_COST:g}"),
    ):
        bad = np.flatnonzero(relevant & wrong)
        if bad.size:
            n = int(bad[0])
            op = egraph.op[n].replace("{", "{{").replace("}", "}}")
            such = counted(int(bad.size), "such e-node")
            raise ExtractionError(f"e-node {{}} ({op}) has cost {cost[n]}: {needs} ({such})", enode=n)


def from_egraph(egraph: EGraph) -> Problem:
    """The problem of a priced e-graph, without anything that cannot be part of an answer.

    Raises `ExtractionError` for a cost that is negative, not finite or out of range, and for a root without a
    derivation.
    """
    check_costs(egraph)
    leaf = egraph.weights_only
    is_leaf = leaf.tolist()
    offsets = egraph.offsets.tolist()
    children = egraph.children.tolist()
    kids: dict[int, tuple[int, ...]] = {}
    nodes: dict[int, tuple[int, ...]] = {}
    for c in range(egraph.num_classes):
        if is_leaf[c]:
            continue
        nodes[c] = tuple(egraph.nodes_of(c))
        for n in nodes[c]:
            kids[n] = tuple(dict.fromkeys(d for d in children[offsets[n] : offsets[n + 1]] if not is_leaf[d]))
    roots = tuple(dict.fromkeys(r for r in egraph.roots if not is_leaf[r]))
    costs = egraph.cost.tolist()
    whole = Problem(roots, nodes, kids, {n: costs[n] for n in kids}, egraph.node_class.tolist())
    pruned = prune(whole, nodes)
    if pruned is None:
        derived = derivation(whole)
        missing = next(r for r in roots if r not in derived)
        raise ExtractionError(
            "root e-class {} has no finite derivation: each of its e-nodes needs, directly or "
            "indirectly, an e-class that is empty or depends on itself",
            missing,
        )
    return pruned


def prune(problem: Problem, nodes: Mapping[int, Iterable[int]]) -> Problem | None:
    """The problem with the given candidates that some acyclic derivation of the roots uses.

    An e-node goes if one of its children cannot be derived, a class if the roots do not reach it. None if a
    root cannot be derived.
    """
    alive = replace(problem, nodes={c: tuple(ns) for c, ns in nodes.items()})
    derived = set(derivation(alive))
    if not derived.issuperset(problem.roots):
        return None
    kids = problem.kids
    kept: dict[int, tuple[int, ...]] = {}
    stack = list(problem.roots)
    while stack:
        c = stack.pop()
        if c in kept:
            continue
        kept[c] = tuple(n for n in alive.nodes[c] if all(d in derived for d in kids[n]) and c not in kids[n])
        stack.extend(d for n in kept[c] for d in kids[n] if d not in kept)
    left = [n for ns in kept.values() for n in ns]
    return replace(
        problem,
        nodes={c: kept[c] for c in sorted(kept)},
        kids={n: kids[n] for n in left},
        cost={n: problem.cost[n] for n in left},
    )


def derivation(problem: Problem) -> Choice:
    """Some acyclic choice for every class that has one, children first (linear time, cost ignored)."""
    users = problem.parents()
    waiting = {n: len(problem.kids[n]) for n in problem.candidates()}
    ready = [n for n, count in waiting.items() if not count]
    choice: Choice = {}
    for n in ready:  # grows while it is read
        c = problem.home[n]
        if c in choice:
            continue
        choice[c] = n
        for user in users[c]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return choice


def needed(problem: Problem, choice: Choice) -> Choice:
    """The part of a choice that the roots reach, in ascending order of class."""
    found: Choice = {}
    stack = list(problem.roots)
    while stack:
        c = stack.pop()
        if c not in found:
            found[c] = choice[c]
            stack.extend(d for d in problem.kids[found[c]] if d not in found)
    return {c: found[c] for c in sorted(found)}


def topological(problem: Problem, choice: Choice) -> list[int] | None:
    """The chosen classes, children first; None if the choice is cyclic. Children not chosen are ignored."""
    nodes = {c: (n,) for c, n in choice.items()}
    kids = {n: tuple(d for d in problem.kids[n] if d in choice) for n in choice.values()}
    order = list(derivation(replace(problem, nodes=nodes, kids=kids)))
    return order if len(order) == len(choice) else None


def strong_components(vertices: Iterable[int], successors: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Tarjan's strongly connected components, each after all components that it reaches."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    path: list[tuple[int, Iterator[int]]] = []
    components: list[list[int]] = []
    done = len(successors)  # the index of a vertex that is in a component already

    def enter(v: int) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        path.append((v, iter(successors[v])))

    for start in vertices:
        if start not in index:
            enter(start)
        while path:
            v, rest = path[-1]
            for w in rest:
                if w not in index:
                    enter(w)
                    break
                low[v] = min(low[v], index[w])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[v])
                if low[v] == index[v]:
                    component: list[int] = []
                    while not component or component[-1] != v:
                        component.append(stack.pop())
                    index.update(dict.fromkeys(component, done))
                    components.append(component)
    return components
