"""Graphs with named sizes: what they are at each size, written as text and read back."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

from tensat_dl.core.diagnostics import Source, TsrError
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.library import library_operators
from tensat_dl.lang.named_sizes import Size, everywhere, open_graph
from tensat_dl.lang.parser import parse
from tensat_dl.lang.print_doc import flat
from tensat_dl.lang.print_expr import expression
from tensat_dl.lang.print_graph import graph_to_tsr
from tensat_dl.lang.print_sizes import integer
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops import symbolic as sym
from tensat_dl.sizes.named import NamedSize, OpenGraph, at_sizes, failing_sizes, other_sizes


def program(text: str) -> Program:
    return load_program("graph.tsr", source=Source("graph.tsr", text))


def opened(text: str, **sizes: int) -> OpenGraph:
    read = program(text)
    (item,) = read.graphs.values()
    return open_graph(item, read.ops, read.blocks, asked=sizes)


def check(text: str) -> OpenGraph:
    """The graph of a text, which at every size is what the text says there, and reads back as itself."""
    read = program(text)
    (item,) = read.graphs.values()
    found = open_graph(item, read.ops, read.blocks)
    for values in product(*(range(s.low, s.high + 1) for s in found.sizes)):
        there = dict(zip((s.name for s in found.sizes), values, strict=True))
        assert found.at(there) == elaborate(item, read.ops, read.blocks, sizes=there)
    written = graph_to_tsr(found.graph, read.ops, opened=found)
    again = opened(written)
    assert again.sizes == found.sizes
    assert graph_to_tsr(again.graph, read.ops, opened=again) == written
    assert print_file(parse(Source("graph.tsr", written))) == written
    for values in product(*(range(s.low, s.high + 1) for s in found.sizes)):
        there = dict(zip((s.name for s in found.sizes), values, strict=True))
        types = [
            [graph.nodes[i].types for _, i in graph.outputs] for graph in (found.at(there), again.at(there))
        ]
        assert types[0] == types[1]
    return found


HEADS = """
graph heads(n: 1..9 = 4) {
  input x : f32[n, 12]
  weight w : f32[12, 12]
  h = reshape(x @ w; shape = [n, 3, 4])
  output reshape(h; shape = [n * 3, 4]), softmax(transpose(h; perm = [1, 2, 0]); axis = 2)
}
"""


def test_integers_know_what_they_are_at_every_size() -> None:
    n = Size(8, sym.atom("dim", "n", 0))
    made = {
        "n * 2 + 1": n * 2 + 1,
        "n / 3": n // 3,
        "n % 3": 1 * n % 3,
        "n * n - n": n * n - n,
        "5 - n": 5 - n,
    }
    for text, value in made.items():
        assert flat(expression(integer(everywhere(value)))) == text
        for size in range(1, 20):
            assert at_sizes(everywhere(value), {"n": size}) == eval(text.replace("/", "//"), {"n": size})
    assert type(n - n) is int
    assert n * 1.5 == 12.0


def test_a_graph_at_every_size() -> None:
    found = check(HEADS)
    assert found.at({"n": 7}).nodes[found.graph.outputs[0][1]].type.shape == (21, 4)


@pytest.mark.parametrize(
    "body",
    [
        "input x : f32[n, 4]\n(a, b) = split(x; axis = 0, sizes = [n / 2, n - n / 2])\noutput relu(a), b",
        "input x : f32[n, 4]\noutput slice(x; axis = 0, start = n - 1, stop = n)",
        "input x : f32[1, 2, n, n]\nweight w : f32[4, 2, 3, 3]\noutput conv2d(x, w; stride = 2, pads = same)",
        "input x : f32[n, 1]\ninput y : f32[1, n]\nweight z : f32[n, n] = 0.5\noutput x * y + z",
        "input x : f32[n]\noutput expand(x; shape = [3, n]), iota(; shape = [n * 2], axis = 0, dtype = i64)",
        "input x : f32[n, 3]\nfor i in 0..3 { y[i] = slice(x; axis = 1, start = i, stop = i + 1) }\noutput y[..]",
    ],
)
def test_shapes_and_attributes(body: str) -> None:
    check(f"graph g(n: 2..9 = 4) {{\n{body}\n}}")


def test_two_sizes_that_are_equal_by_default() -> None:
    found = check(
        "graph g(n: 1..4 = 2, m: 1..4 = 2) { input x : f32[n, m]; output reshape(x; shape = [m, n]) }"
    )
    assert "reshape(x; shape = [m, n])" in graph_to_tsr(found.graph, library_operators(), opened=found)


def test_slices_that_are_a_split_by_chance_are_no_split() -> None:
    body = "output slice(x; axis = 0, start = 0, stop = 2), slice(x; axis = 0, start = n / 2, stop = n)"
    found = check(f"graph g(n: 3..9 = 4) {{ input x : f32[n, 3]; {body} }}")
    assert "split" not in graph_to_tsr(found.graph, library_operators(), opened=found)


def drawn(seed: int) -> str:
    """A graph with a size n of 1 to 7. Its values have the shape [n * a, b]."""
    random = Random(seed)
    lines = ["input x0 : f32[n, 12]", "input x1 : f32[n * 2, 6]"]
    shapes = [(1, 12), (2, 6)]

    def add(text: str, shape: tuple[int, int]) -> None:
        lines.append(f"x{len(shapes)} = {text}")
        shapes.append(shape)

    for _ in range(random.randint(3, 8)):
        i = random.randrange(len(shapes))
        a, b = shapes[i]
        alike = [j for j, shape in enumerate(shapes) if shape == (a, b)]
        match random.randrange(6):
            case 0:
                add(f"{random.choice(('relu', 'tanh'))}(x{i})", (a, b))
            case 1:
                add(f"x{i} + x{random.choice(alike)}", (a, b))
            case 2:
                add(f"concat(x{i}, x{random.choice(alike)}; axis = 0)", (2 * a, b))
            case 3 if b % 2 == 0:
                add(f"reshape(x{i}; shape = [n * {2 * a}, {b // 2}])", (2 * a, b // 2))
            case 4:
                add(f"slice(x{i}; axis = 0, start = 0, stop = n)", (1, b))
            case 5:
                lines.append(f"weight w{len(shapes)} : f32[{b}, 6]")
                add(f"x{i} @ w{len(shapes)}", (a, 6))
    return "graph g(n: 1..7 = 3) {\n" + "\n".join([*lines, f"output x{len(shapes) - 1}, x2"]) + "\n}"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    check(drawn(seed))


def test_a_size_that_is_asked_for_is_the_default() -> None:
    assert opened(HEADS, n=7).defaults == {"n": 7}
    for sizes, message in (({"n": 10}, "outside of 1..9"), ({"m": 3}, "has no size `m`")):
        with pytest.raises(TsrError, match=message):
            opened(HEADS, **sizes)


def test_graphs_of_one_size_are_as_without() -> None:
    assert check("graph g(n: 3..3 = 3) { input x : f32[n]; output relu(x) }").graph.nodes[0].type.shape == (
        3,
    )


N = NamedSize("n", 1, 50, 8)


def test_conditions_fail_at_the_first_size() -> None:
    n, m = N.symbol, sym.atom("dim", "m", 0)
    assert failing_sizes(sym.at_most(n, 50), [N]) is None
    assert failing_sizes(sym.at_most(n, 30), [N]) == {"n": 31}
    assert failing_sizes(sym.at_most(sym.mul(sym.floordiv(n, 2), 2), n), [N]) is None
    assert failing_sizes(sym.equal(sym.mul(sym.floordiv(n, 2), 2), n), [N]) == {"n": 1}
    both = [N, NamedSize("m", 1, 4, 2)]
    assert failing_sizes(sym.at_most(sym.mul(n, m), 100), both) == {"n": 26, "m": 4}
    assert failing_sizes(sym.at_most(m, 3), both) == {"n": 8, "m": 4}


def test_sizes_to_look_at_have_the_ends_and_a_prime() -> None:
    found = [sizes["n"] for sizes in other_sizes([NamedSize("n", 1, 4096, 128)])]
    assert {1, 127, 4096} <= set(found)
    assert len(found) == 4
    assert 128 not in found
    assert [sizes["n"] for sizes in other_sizes([NamedSize("n", 1, 2, 1)])] == [2]
    assert other_sizes([NamedSize("n", 5, 5, 5)]) == []
    two = other_sizes([NamedSize("n", 1, 64, 8), NamedSize("m", 1, 64, 8)])
    assert any(sizes["n"] != sizes["m"] for sizes in two)


def test_examples_with_sizes_read_back() -> None:
    for path in (Path(__file__).parents[2] / "examples").glob("*.tsr"):
        read = load_program(str(path))
        for item in read.graphs.values():
            if item.sizes:
                found = open_graph(item, read.ops, read.blocks)
                text = graph_to_tsr(found.graph, read.ops, opened=found)
                again = opened(text)
                assert graph_to_tsr(again.graph, read.ops, opened=again) == text
