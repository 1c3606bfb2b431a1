"""Algorithm 1 of the paper finds what trying every e-node for every node of a pattern finds."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from tensat_dl.bench.join_cell import ShapeCheck, before_search, by_join, by_product, selected
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph, GraphBuilder, TensorType
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.paper.product import Product, SourcePatterns, Unsupported, canonical, hash_join
from tests.explore.graphs import graph_of, library, pack, program_of
from tests.explore.reference import Reference

MULTI = tuple(r for r in library().rules if r.kind == "multi")


def random_graph(seed: int) -> Graph:
    """Products, convolutions and activations of a few operands, so that many share one."""
    rng = random.Random(seed)
    builder = GraphBuilder("drawn")

    def leaf(name: str, shape: tuple[int, ...], op: str) -> int:
        t = TensorType("f32", shape)
        attrs = (("name", name), ("dtype", "f32"), ("shape", shape))
        return builder.add(op, (), attrs, (t,))

    rows = [leaf(f"x{i}", (rng.choice((2, 3)), 4), "input") for i in range(3)]
    weights = [leaf(f"w{i}", (4, rng.choice((4, 5))), "weight") for i in range(4)]
    images = [leaf(f"i{i}", (1, 4, 6, 6), "input") for i in range(2)]
    kernels = [
        leaf(f"k{i}", (rng.choice((2, 4)), rng.choice((2, 4)), k, k), "weight")
        for i, k in enumerate((1, 3, 3))
    ]
    outputs = []
    for _ in range(8):
        x, w = rng.choice(rows), rng.choice(weights)
        shape = (builder.nodes[x].type.shape[0], builder.nodes[w].type.shape[1])
        attrs = (("act", rng.choice(("none", "relu"))),)
        outputs.append(builder.add("matmul", (x, w), attrs, (TensorType("f32", shape),)))
    for _ in range(6):
        x, k = rng.choice(images), rng.choice(kernels)
        wide = builder.nodes[k].type.shape
        pad = rng.choice((0, (wide[2] - 1) // 2))
        size = 6 + 2 * pad - wide[2] + 1
        conv = (("stride", (1, 1)), ("pads", (pad,) * 4), ("dilation", (1, 1)), ("act", "none"))
        t = TensorType("f32", (1, wide[0], size, size))
        outputs.append(builder.add("conv2d", (x, k), conv, (t,)))
    for i in rng.sample(outputs, 5):
        outputs.append(builder.add("relu", (i,), (), builder.nodes[i].types))
    return builder.finish([(f"out{i}", n) for i, n in enumerate(outputs)])


def brute_force(egraph: EGraph) -> Reference:
    """The same e-graph in the slow reference, whose e-classes have the same numbers."""
    reference = Reference(Graph("none", (), ()), library().ops)
    reference.parent = list(range(egraph.num_classes))
    reference.types = [t[0] for t in egraph.types]
    reference.nodes = {
        (egraph.op[n], egraph.attrs[n], tuple(egraph.children_of(n))): int(c)
        for n, c in enumerate(egraph.node_class)
    }
    return reference


@pytest.mark.parametrize("seed", range(4))
def test_three_ways_and_brute_force_find_the_same(seed: int) -> None:
    graph, ops = random_graph(seed), library().ops
    rules = (*pack("pairs"), *pack("activation"))
    for k in (1, 2) if seed == 0 else (1,):
        egraph = before_search(graph, ops, rules, k)
        assert egraph is not None
        program = EgglogProgram(ops, rules, graph)
        declared = program.everything()
        multi = [r for r in program.current() if r.rule.kind == "multi"]
        engine = by_join(egraph, program, declared, multi, runs=2)
        baseline = by_product(egraph, multi, ops, 60.0)
        assert baseline.enumerated == 1.0
        assert baseline.found == baseline.joined
        assert engine.found == {r.name: selected(r, baseline.found[r.name]) for r in multi}
        assert sum(map(len, engine.found.values())) > 10
        if k > 1:
            continue
        reference = brute_force(egraph)
        for rule in multi:
            found = [{**tensors, **values} for tensors, values in reference.matches(rule.rule)]
            checked = ShapeCheck(rule, egraph, ops).applicable(
                {n: v for n, v in m.items() if not n.startswith("attributes of")} for m in found
            )
            assert checked == baseline.found[rule.name]


def test_enumeration_is_the_filtered_product() -> None:
    rng = random.Random(0)
    lists = [[{n: rng.randrange(3) for n in names} for _ in range(12)] for names in ("ab", "bc", "ca", "d")]
    wanted = []
    for parts in product(*lists):
        together: dict[str, int] = {}
        if all(together.setdefault(n, v) == v for part in parts for n, v in part.items()):
            wanted.append(together)
    enumerated = Product(lists)
    assert list(enumerated) == wanted
    assert list(hash_join(lists)) == wanted
    assert enumerated.total == 12**4
    assert enumerated.done == 1.0


def test_a_time_limit_says_how_far_it_came() -> None:
    enumerated = Product([[{"a": i} for i in range(10)]] * 2, 0.0)
    assert list(enumerated) == [{"a": 0}]
    assert enumerated.done == 0.1
    assert Product([[], [{"a": 1}]]).done == 1.0


def test_patterns_that_differ_in_names_alone_are_searched_once() -> None:
    rules = [r for r in MULTI if r.name.startswith("pair-matmul")]
    sources = SourcePatterns(rules, library().ops)
    assert len(rules) == 2
    assert len(sources.distinct) == 1
    (_, first), (_, second) = sources.of_rule["pair-matmul-left"]
    assert (first, second) == (("a", "x", "u", "f"), ("b", "x", "v", "f"))


def test_nested_patterns_and_constants() -> None:
    program = program_of(
        """
        rule nested {
          a = relu(matmul(x, u))
          b = matmul(matmul(x, v; act = relu), w)
          =>
          m = matmul(x, u)
          a = relu(m)
          b = matmul(relu(matmul(x, v)), w)
        }
        graph g {
          input x : f32[3, 4]
          weight u : f32[4, 4]
          weight v : f32[4, 4]
          output relu(x @ u), matmul(x, v; act = relu) @ u, relu(x @ v)
        }
        """
    )
    (rule,) = (r for r in program.rules if r.name == "nested")
    egraph = as_egraph(
        graph_of(
            "input x : f32[3, 4]\nweight u : f32[4, 4]\nweight v : f32[4, 4]\n"
            "output relu(x @ u), matmul(x, v; act = relu) @ u, relu(x @ v)"
        )
    )
    sources = SourcePatterns([rule], program.ops)
    lists = sources.decanonical(rule, sources.search(egraph))
    assert [len(found) for found in lists] == [2, 1]
    assert len(list(Product(lists))) == 2


def test_attributes_by_expressions_are_refused() -> None:
    program = program_of(
        """
        rule computed {
          a = slice(x; axis = 0, start = 0, stop = dim(x, 0) - 1)
          b = relu(x)
          => a = slice(x; axis = 0, start = 0, stop = dim(x, 0) - 1)
          b = relu(relu(x))
        }
        """
    )
    (rule,) = (r for r in program.rules if r.name == "computed")
    with pytest.raises(Unsupported, match="slice"):
        canonical(rule, "a", program.ops)


def as_egraph(graph: Graph) -> EGraph:
    """A graph as an e-graph: every node an e-class of its own."""
    size = len(graph.nodes)
    return EGraph(
        op=tuple(n.op for n in graph.nodes),
        attrs=tuple(n.attrs for n in graph.nodes),
        node_class=np.arange(size),
        class_start=np.arange(size + 1),
        offsets=np.cumsum([0, *(len(n.inputs) for n in graph.nodes)]),
        children=np.array([i for n in graph.nodes for i in n.inputs], dtype=np.int64),
        types=tuple(n.types for n in graph.nodes),
        weights_only=np.array(graph.weights_only()),
        roots=tuple(i for _, i in graph.outputs),
        source=np.arange(size),
        cost=np.zeros(size),
        home=np.arange(size),
    )
