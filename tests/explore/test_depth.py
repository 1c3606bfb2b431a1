"""Work and sizes grow in proportion to the number of layers: counted, not timed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tensat_dl.engine.egglog import Engine
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.groups import layers
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.naming import levels
from tensat_dl.engine.snapshot import _sound
from tensat_dl.engine.syntax import Command
from tests.explore.graphs import graph_in, library, pack, program_of, rules_named, steps_of

# ---- levels of new e-classes ------------------------------------------------------------------------------


@dataclass
class FakeRow:
    """An e-node that counts how often its children are looked at."""

    output: int
    kids: tuple[int, ...]
    looks: int = field(default=0, compare=False)

    @property
    def children(self) -> tuple[int, ...]:
        self.looks += 1
        return self.kids


def chain(length: int) -> list[Any]:
    """A chain of e-classes, the last first, each with another e-node that depends on its own class."""
    rows = [FakeRow(i, (i - 1,) if i else ()) for i in reversed(range(length))]
    return [*rows, *(FakeRow(i, (i + 1, i)) for i in range(length - 1))]


def test_levels_of_a_chain() -> None:
    rows = chain(5)
    found = [[r.output for r in level if r.kids in ((r.output - 1,), ())] for level in levels({}, rows)]
    assert found == [[0], [1], [2], [3], [4]]


def test_levels_leave_out_what_has_no_derivation() -> None:
    rows: list[Any] = [FakeRow(1, (2,)), FakeRow(2, (1,)), FakeRow(3, (0,)), FakeRow(4, (3, 1))]
    assert [[r.output for r in level] for level in levels({0: 0}, rows)] == [[3]]


def test_every_row_is_looked_at_once_however_many_levels_there_are() -> None:
    for length in (10, 300):
        rows = chain(length)
        assert sum(len(level) for level in levels({}, rows)) >= length
        assert max(r.looks for r in rows) == 1


class Children(tuple[int, ...]):
    """Children of an e-node that count how often they are passed over."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        self.looks += 1
        return super().__iter__()


def test_unsound_e_nodes_are_found_without_passing_over_all_of_them_again() -> None:
    for length in (10, 300):  # the first class of the chain is not usable, so none is
        nodes = [(r.output, Children(r.kids)) for r in chain(length)[:length]]
        usable, keep = _sound(set(range(1, length)), nodes)
        assert (usable, keep) == (set(), [])
        assert max(children.looks for _, children in nodes) <= 2


# ---- members that depend on one another -------------------------------------------------------------------


def layers_by_pairs(
    derivation: Mapping[int, Sequence[int]], needs: Sequence[Sequence[int]], makes: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The plain way: follows the derivations of every two members."""

    def reaches(starts: Sequence[int], goals: Sequence[int]) -> bool:
        return any(h in goals or reaches(derivation.get(h, ()), goals) for h in starts)

    found: list[list[int]] = []
    for i in range(len(needs)):
        for layer in found:
            if not any(reaches(needs[i], makes[j]) or reaches(needs[j], makes[i]) for j in layer):
                layer.append(i)
                break
        else:
            found.append([i])
    return found


@pytest.mark.parametrize("seed", range(40))
def test_layers_are_those_of_all_pairs(seed: int) -> None:
    rng = random.Random(seed)
    n = 25
    derivation = {h: tuple(rng.sample(range(h), min(h, rng.randint(0, 2)))) for h in range(n)}
    makes = [[h] for h in rng.sample(range(n), 6)]
    needs = [list(derivation[m[0]]) or [0] for m in makes]
    assert layers(derivation, needs, makes, set()) == layers_by_pairs(derivation, needs, makes)


class Counting(dict[int, tuple[int, ...]]):
    """Derivations that count the look-ups."""

    looks = 0

    def get(self, key: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


def test_what_lies_below_a_group_is_not_looked_at() -> None:
    looks = []
    for depth in (10, 1000):
        derivation = Counting({h: (h - 1,) for h in range(1, depth)})
        derivation |= {depth: (depth - 1,), depth + 1: (depth - 1,), depth + 2: (depth,)}
        assert layers(
            derivation, [[depth - 1], [depth - 1], [depth]], [[depth], [depth + 1], [depth + 2]], set()
        )
        looks.append(derivation.looks)
    assert looks[0] == looks[1]


def test_a_chain_of_members_is_followed_once() -> None:
    looks = []
    for n in (50, 100):  # member i makes 2 i + 1 of 2 i
        derivation = Counting({h: (h - 1,) for h in range(1, 2 * n)})
        found = layers(derivation, [[2 * i] for i in range(n)], [[2 * i + 1] for i in range(n)], set())
        assert found == [[i] for i in range(n)]
        looks.append(derivation.looks)
    assert looks[1] <= 2.1 * looks[0]


# ---- e-graphs of repeated layers --------------------------------------------------------------------------

ENCODER = """
block linear(x; out: int) {{
  weight w : f32[dim(x, 1), out]
  weight b : f32[out]
  return x @ w + b
}}
block norm(x) {{
  weight scale : f32[dim(x, 1)]
  weight bias : f32[dim(x, 1)]
  return layernorm(x, scale, bias)
}}
block split_heads(x) {{
  return transpose(reshape(x; shape = [dim(x, 0), dim(x, 1) / 4, 4]); perm = [1, 0, 2])
}}
block attention(x) {{
  q = split_heads(linear(x; out = dim(x, 1)))
  k = split_heads(linear(x; out = dim(x, 1)))
  v = split_heads(linear(x; out = dim(x, 1)))
  mixed = softmax(q @ transpose(k; perm = [0, 2, 1]) * 0.5; axis = 2) @ v
  return linear(reshape(transpose(mixed; perm = [1, 0, 2]); shape = shape(x)); out = dim(x, 1))
}}
graph encoder {{
  input x : f32[6, 8]
  for i in 0..{layers} {{
    x = norm(x + attention(x))
    x = norm(x + linear(gelu(linear(x; out = 16)); out = 8))
  }}
  output x
}}
"""

RESIDUAL = """
block conv(x; out: int, kernel: int = 1, groups: int = 1, act: none | relu = relu) {{
  weight w : f32[out, dim(x, 1) / groups, kernel, kernel]
  return conv2d(x, w; pads = same, act = act)
}}
graph resnext {{
  input x : f32[1, 8, 5, 5]
  for i in 0..{layers} {{
    y = conv(conv(x; out = 4); out = 4, kernel = 3, groups = 2)
    x = relu(conv(y; out = 8, act = none) + x)
  }}
  output x
}}
"""

#: The benchmark graph of the paper: linear in x but for the mixtures of heads, so everything is a product of x.
LINEAR = """
graph bert {{
  input tokens : f32[4, 8]
  x = relu(tokens)
  for i in 0..{layers} {{
    weight wq[i] : f32[8, 8]
    weight wk[i] : f32[8, 8]
    weight w[i] : f32[8, 8]
    mixed[i] = transpose(x @ wq[i]; perm = [1, 0]) @ (x @ wk[i])
    x = x @ w[i]
  }}
  output mixed[..], x
}}
"""


def sizes(text: str) -> Iterator[tuple[int, int, int]]:
    """E-nodes, e-classes and iterations at saturation, for 2, 3, .. layers."""
    for n in (2, 3, 4, 7):
        steps = steps_of(graph_in(program_of(text.format(layers=n))), pack("standard"), Limits(iterations=15))
        assert steps[-1].stop == "saturated"
        yield steps[-1].egraph.num_nodes, steps[-1].egraph.num_classes, len(steps)


@pytest.mark.thorough
@pytest.mark.parametrize("text", [ENCODER, RESIDUAL], ids=["encoder", "resnext"])
def test_each_layer_adds_as_much_as_the_one_before(text: str) -> None:
    two, three, four, seven = sizes(text)
    for i in range(2):
        assert four[i] - three[i] == three[i] - two[i]
        assert seven[i] - four[i] == 3 * (four[i] - three[i])
    assert two[2] == three[2] == four[2] == seven[2]


def test_facts_of_a_graph_are_known_at_once_however_deep_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine would find out what depends on an input from one e-node to the next."""
    run = Engine.run
    rounds: list[int] = []

    def counting(self: Engine, *commands: Command) -> list[Any]:
        outputs = run(self, *commands)
        rounds[-1] += sum(len(o.report.iterations) for o in outputs if hasattr(o, "report"))
        return outputs

    monkeypatch.setattr(Engine, "run", counting)
    for depth in (2, 8):
        rounds.append(0)
        graph = graph_in(program_of(ENCODER.format(layers=depth)))
        explorer = Explorer(graph, library().ops, pack("standard"), Limits(iterations=0))
        next(explorer.run())
        assert explorer.program.tells_varying
    assert 0 < rounds[0] == rounds[1]


@pytest.mark.thorough
def test_chains_of_products_grow_in_proportion_to_their_length() -> None:
    nodes = []
    for n in (8, 12, 16):
        graph = graph_in(program_of(LINEAR.format(layers=n)))
        steps = steps_of(graph, pack("standard"), Limits(60_000, iterations=15))
        assert steps[-1].stop == "saturated"
        nodes.append(steps[-1].egraph.num_nodes)
    assert nodes[2] - nodes[1] <= 1.02 * (nodes[1] - nodes[0])


def test_whatever_is_multiplied_by_weights_alone_is_one_product() -> None:
    graph = graph_in(program_of(LINEAR.format(layers=20)))
    last = steps_of(graph, rules_named("matmul-fold"), Limits(iterations=2))[-1].egraph
    x = int(last.node_class[last.source[next(i for i, n in enumerate(graph.nodes) if n.op == "relu")]])
    direct = {int(last.node_class[n]) for n in range(last.num_nodes) if last.children_of(n)[:1] == [x]}
    products = [i for i, n in enumerate(graph.nodes) if n.op == "matmul" and n.inputs[1] in graph.weights]
    assert len(products) == 60
    assert direct == {int(last.node_class[last.source[i]]) for i in products}
