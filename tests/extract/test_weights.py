"""What is computed from weights alone, ahead of time, takes the fewest bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import TensorType
from tensat_dl.extract.problem import Choice
from tensat_dl.extract.weights import fewest_bytes
from tests.extract.builders import brute_force, price, random_egraph
from tests.extract.test_rebuild import rebuilt


def of_weights(rng: random.Random, back: float = 0.3) -> EGraph:
    """A small random e-graph in which all is computed from weights, and in which an e-node costs its bytes; a share
    ``back`` of the arcs may close a cycle."""
    shaped = random_egraph(rng, rng.randint(2, 8), 3, back)
    types = tuple((TensorType("f32", (rng.randint(1, 3),)),) for _ in range(shaped.num_classes))
    cost = np.array([types[c][0].nbytes for c in shaped.node_class.tolist()], dtype=np.float64)
    return replace(shaped, types=types, cost=cost, weights_only=np.ones(shaped.num_classes, dtype=np.bool_))


def derived(egraph: EGraph, choice: Choice) -> set[int]:
    """The e-classes that a choice computes."""
    done: set[int] = set()
    while new := {c for c, n in choice.items() if c not in done and done.issuperset(egraph.children_of(n))}:
        done |= new
    return done


@pytest.mark.parametrize("seed", range(200))
def test_no_choice_takes_fewer_bytes(seed: int) -> None:
    egraph = of_weights(random.Random(seed))
    found = fewest_bytes(egraph, {})
    assert derived(egraph, found).issuperset(egraph.roots)
    nothing = np.zeros(egraph.num_classes, dtype=np.bool_)
    assert price(egraph, found) == brute_force(replace(egraph, weights_only=nothing))


@pytest.mark.parametrize("seed", range(50))
def test_only_what_is_needed_at_run_time_counts(seed: int) -> None:
    """The root is computed at run time, by one of its e-nodes: weights are derived for that one alone."""
    rng = random.Random(seed)
    egraph = of_weights(rng, back=0.0)  # weights do not depend on what is computed at run time
    root = egraph.num_classes - 1
    ahead = egraph.weights_only.copy()
    ahead[root] = False
    taken = rng.choice(list(egraph.nodes_of(root)))
    kids = tuple(dict.fromkeys(egraph.children_of(taken)))
    below = replace(egraph, weights_only=ahead, roots=(root,))
    found = fewest_bytes(below, {root: taken})
    assert found == fewest_bytes(replace(egraph, roots=kids), {})


CHAIN = """
rule assoc { matmul(matmul(x, y), z) => matmul(x, matmul(y, z)) }
rule back { matmul(x, matmul(y, z)) => matmul(matmul(x, y), z) }
graph g {
  input x : f32[2, 8]
  weight a : f32[8, 8]
  weight b : f32[8, 8]
  weight c : f32[8, 8]
  weight d : f32[8, 8]
  weight e : f32[8, 8]
  h = x @ a @ b
  output h @ c
  output h @ d
  output h @ e
}"""


def test_heads_of_a_chain_share_its_product() -> None:
    """a @ b is computed once, not b @ c, b @ d and b @ e, and then a product of each of these."""
    graph = rebuilt(CHAIN)
    ahead = graph.weights_only()
    products = [i for i, node in enumerate(graph.nodes) if node.op == "matmul" and ahead[i]]
    assert len(products) == 4
    assert sum(node.op == "matmul" for node in graph.nodes) == 4 + 3
