"""Small e-graphs for the tests, and the slow, plain way to extract from them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum

import numpy as np

from tensat_dl.core.egraph import EGraph

#: One e-node: its cost and its child classes.
Spec = tuple[float, list[int]]


def egraph(
    classes: Sequence[Sequence[Spec]],
    roots: Sequence[int],
    source: Sequence[int] = (),
    weights_only: Sequence[int] = (),
) -> EGraph:
    flat = [(c, cost, kids) for c, nodes in enumerate(classes) for cost, kids in nodes]
    leaves = np.zeros(len(classes), dtype=np.bool_)
    leaves[list(weights_only)] = True
    return EGraph(
        op=tuple(f"op{n}" for n in range(len(flat))),
        attrs=((),) * len(flat),
        node_class=np.array([c for c, _, _ in flat], dtype=np.int64),
        class_start=np.concatenate([[0], np.cumsum([len(nodes) for nodes in classes])]).astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum([len(kids) for _, _, kids in flat])]).astype(np.int64),
        children=np.array([d for _, _, kids in flat for d in kids], dtype=np.int64),
        types=((),) * len(classes),
        weights_only=leaves,
        roots=tuple(roots),
        source=np.array(source, dtype=np.int64),
        cost=np.array([cost for _, cost, _ in flat], dtype=np.float64),
        home=np.arange(len(classes)),
    )


def random_egraph(
    rng: random.Random,
    classes: int,
    max_nodes: int,
    back: float = 0.3,
    choices: Sequence[float] = (0, 0, 1, 1, 2, 3.5),
) -> EGraph:
    """A random e-graph; a share ``back`` of the arcs may close a cycle. Its roots can always be derived.

    E-node 0 of each class has only lower classes as children, and these e-nodes are the source program.
    """
    specs: list[list[Spec]] = []
    for c in range(classes):
        nodes: list[Spec] = []
        for i in range(rng.randint(1, max_nodes)):
            kids = []
            for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
                if i and rng.random() < back:
                    kids.append(rng.randrange(classes))
                elif c:
                    kids.append(rng.randrange(max(0, c - 6), c))
            nodes.append((rng.choice(choices), kids))
        specs.append(nodes)
    starts = np.concatenate([[0], np.cumsum([len(nodes) for nodes in specs])]).tolist()
    roots = [classes - 1, *(rng.randrange(classes) for _ in range(rng.randint(0, 2)))]
    leaves = [c for c in range(classes) if rng.random() < 0.08]
    return egraph(specs, roots, starts[:classes], leaves)


def wild_egraph(rng: random.Random) -> EGraph:
    """Any small e-graph: cycles, e-nodes that need their own class, empty classes, roots that nothing derives."""
    classes = rng.randint(1, 9)
    choices = rng.choice(((0, 1), (0, 0, 1, 1, 2, 3.5), (1, 1.25, 1.5, 2.75), (0, 0.1, 0.2, 0.3, 1e-6, 1e6)))
    back = rng.choice((0.0, 0.2, 0.4, 0.7))
    specs: list[list[Spec]] = []
    for c in range(classes):
        nodes: list[Spec] = []
        for _ in range(0 if rng.random() < 0.05 else rng.choice((1, 2, 2, 3, 4))):
            above, below = range(c, classes), range(c)
            kids = []
            for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
                part = above if rng.random() < back else below
                kids.extend([rng.choice(part)] if part else [])
            nodes.append((rng.choice(choices), kids))
        specs.append(nodes)
    roots = [classes - 1, *(rng.randrange(classes) for _ in range(rng.randint(0, 3)))]
    leaves = [c for c in range(classes) if rng.random() < 0.1]
    return egraph(specs, roots, weights_only=leaves)


def tangled_egraph(rng: random.Random, classes: int) -> EGraph:
    """A random e-graph in which every e-class can be had at a high price, or cheaply from others, in cycles."""
    specs: list[list[Spec]] = []
    for _ in range(classes):
        cheap = [
            (rng.choice((0, 1, 1, 2, 3)), rng.sample(range(classes), rng.randint(1, 2))) for _ in range(2)
        ]
        specs.append([(rng.choice((5, 6, 7, 8, 9)), []), *cheap])
    return egraph(specs, rng.sample(range(classes), min(3, classes)))


def stacked_egraph(rngs: Iterable[random.Random], classes: int) -> EGraph:
    """Tangles like those of `tangled_egraph`, one for each generator, each on a class that needs all classes of the
    tangle below."""
    specs: list[list[Spec]] = [[(0.0, [])]]
    for rng in rngs:
        below, start = len(specs) - 1, len(specs)
        for _ in range(classes):
            cheap = (rng.choice((0, 1, 2)), rng.sample(range(start, start + classes), rng.randint(1, 2)))
            specs.append([(rng.choice((5, 6, 7)), [below]), cheap])
        specs.append([(1.0, list(range(start, start + classes)))])
    return egraph(specs, [len(specs) - 1])


def layered_egraph(seed: int, classes: int, max_nodes: int = 4, back: float = 0.1, width: int = 6) -> EGraph:
    """A random e-graph whose derivations are long: only the lowest ``width`` classes have no children."""
    rng = random.Random(seed)
    specs: list[list[Spec]] = []
    for c in range(classes):
        nodes: list[Spec] = []
        for i in range(rng.randint(1, max_nodes) if c >= width else 1):
            kids = []
            for _ in range(rng.choice((1, 2, 2, 3)) if c >= width else 0):
                if i and rng.random() < back:
                    kids.append(rng.randrange(c, min(classes, c + width)))
                else:
                    kids.append(rng.randrange(max(0, c - 2 * width), c))
            free = c < width or rng.random() < 0.3
            nodes.append((0.0 if free else round(rng.uniform(0.1, 5.0), 3), kids))
        specs.append(nodes)
    starts = np.concatenate([[0], np.cumsum([len(nodes) for nodes in specs])]).tolist()
    return egraph(specs, [classes - 1, classes - 2], starts[:classes])


def brute_force(graph: EGraph) -> float | None:
    """The least cost of an acyclic derivation of the roots, by trying every choice; None if there is none."""
    best = float("inf")

    def hopeless(cost: float) -> bool:
        return cost >= best

    for choice in derivations(graph, hopeless):
        best = price(graph, choice)
    return None if best == float("inf") else best


def price(graph: EGraph, choice: dict[int, int]) -> float:
    return fsum(float(graph.cost[n]) for n in choice.values())


def derivations(
    graph: EGraph, hopeless: Callable[[float], bool] = lambda cost: False
) -> Iterator[dict[int, int]]:
    """Every acyclic derivation of the roots, without classes that it does not need.

    What begins with choices of a cost that is ``hopeless`` is left out.
    """
    kids = [graph.children_of(n) for n in range(graph.num_nodes)]

    def needed(choice: dict[int, int]) -> int | None:
        """Some class that is needed and not chosen."""
        stack = list(graph.roots)
        seen: set[int] = set()
        while stack:
            c = stack.pop()
            if c in seen or graph.weights_only[c]:
                continue
            seen.add(c)
            if c not in choice:
                return c
            stack.extend(kids[choice[c]])
        return None

    def cyclic(choice: dict[int, int]) -> bool:
        left = dict(choice)
        while True:
            done = [c for c, n in left.items() if not any(d in left for d in kids[n])]
            if not done:
                return bool(left)
            for c in done:
                del left[c]

    def explore(choice: dict[int, int]) -> Iterator[dict[int, int]]:
        if hopeless(price(graph, choice)):
            return
        c = needed(choice)
        if c is None:
            yield dict(choice)
            return
        for n in graph.nodes_of(c):
            choice[c] = n
            if not cyclic(choice):
                yield from explore(choice)
            del choice[c]

    yield from explore({})
