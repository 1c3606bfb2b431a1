"""What graphs of the language mean: each way of writing gives the graph that is spelled out beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.node_names import Names
from tensat_dl.lang.program import load_program


def graph(text: str, folder: Path) -> Graph:
    path = folder / "g.tsr"
    path.write_text(text)
    program = load_program(str(path))
    return elaborate(program.graphs["g"], program.ops, program.blocks)


def body(statements: str) -> str:
    return f"graph g {{\ninput x : f32[4, 6]\n{statements}\n}}"


SAME = {
    "operands may be a list that is computed on the spot": (
        "output concat(tanh(slice(x; axis = 0, start = i, stop = 4)) for i in 0..2; axis = 0)",
        "a = tanh(slice(x; axis = 0, start = 0, stop = 4))\n"
        "b = tanh(slice(x; axis = 0, start = 1, stop = 4))\n"
        "output concat(a, b; axis = 0)",
    ),
    "a list of numbers gives the order": (
        "for i in 0..3 { t[i] = slice(x; axis = 1, start = i, stop = i + 1) }\n"
        "output concat(t[k] for k in [2, 0, 1]; axis = 1)",
        "for i in 0..3 { t[i] = slice(x; axis = 1, start = i, stop = i + 1) }\n"
        "output concat(t[2], t[0], t[1]; axis = 1)",
    ),
    "split is a family of slices": (
        "(a, b) = split(x; axis = 1, sizes = [2, 4])\noutput a, b",
        "output slice(x; axis = 1, start = 0, stop = 2), slice(x; axis = 1, start = 2, stop = 6)",
    ),
    "loops write lists": (
        "t[0] = x\nfor i in 0..2 { t[i + 1] = relu(tanh(t[i])) }\noutput t[2]",
        "output relu(tanh(relu(tanh(x))))",
    ),
    "elements of a list keep their indices": (
        "for i in 1..4 { t[i] = slice(x; axis = 0, start = 0, stop = i) }\n"
        "output concat(t[1..3], t[-1], t[..-1]; axis = 0)",
        "for i in 1..4 { t[i] = slice(x; axis = 0, start = 0, stop = i) }\n"
        "output concat(t[1], t[2], t[3], t[1], t[2]; axis = 0)",
    ),
    "infix operators are operators": ("output x + x * x", "output ewadd(x, ewmul(x, x))"),
    "a sign is an operator": ("output -x * -(x + -2.0)", "output ewmul(neg(x), neg(ewadd(x, -2.0)))"),
    "equal nodes are one node": ("output tanh(x), relu(tanh(x))", "y = tanh(x)\noutput y, relu(y)"),
}


@pytest.mark.parametrize("name", SAME)
def test_means_the_same(name: str, tmp_path: Path) -> None:
    short, long = (graph(body(text), tmp_path) for text in SAME[name])
    assert short.nodes == long.nodes
    assert [node for _, node in short.outputs] == [node for _, node in long.outputs]


def test_results_have_the_names_of_elements(tmp_path: Path) -> None:
    text = "for i in [1, 2, 4] { t[i] = slice(x; axis = 0, start = 0, stop = i) }\noutput "
    found = graph(body(f"{text} t[1..4], t[4], u = t[2]"), tmp_path)
    assert [name for name, _ in found.outputs] == ["t_1", "t_2", "t_4", "u"]
    assert [found.nodes[i].type.shape[0] for _, i in found.outputs] == [1, 2, 4, 2]


def test_a_block_is_what_it_says(tmp_path: Path) -> None:
    block = "block twice(x; times: int = 2) { for i in 0..times { x = tanh(x) }; return x }\n"
    called = graph(block + body("output twice(x), twice(x; times = 3)"), tmp_path)
    written = graph(body("y = tanh(tanh(x))\noutput y, tanh(y)"), tmp_path)
    assert called.nodes == written.nodes


def test_names_that_are_given_again_and_again(tmp_path: Path) -> None:
    """They get the next number that is free."""
    text = body(
        "x_2 = tanh(x)\nfor i in 0..4 { x = relu(x) }\nfor i in 0..2 { x_2 = relu(x_2) }\noutput x, x_2"
    )
    names = [n.name for n in graph(text, tmp_path).nodes]
    assert names == ["x", "x_2", "x_1", "x_3", "x_4", "x_5", "x_2_1", "x_2_2"]


def test_names_in_long_loops() -> None:
    """No name is tried again that is known to be taken."""

    class Counting(set[str]):
        asked = 0

        def __contains__(self, name: object) -> bool:
            self.asked += 1
            return super().__contains__(name)

    names = Names()
    names._taken = taken = Counting()
    assert [names.counted("x") for _ in range(1000)] == ["x", *(f"x_{i}" for i in range(1, 1000))]
    assert taken.asked <= 2000


@pytest.mark.parametrize(
    ("dtype", "number", "message"),
    [
        ("i64", "9007199254740993", "the nearest one is 9007199254740992"),
        ("i64", "-9007199254740993", "can't be held exactly"),
        ("i64", "100000000000000000 * 1024", "elements of type i64 go from"),
        ("u8", "300", "elements of type u8 go from 0 to 255"),
        ("u8", "-1", "elements of type u8 go from 0 to 255"),
        ("i8", "1000", "elements of type i8 go from -128 to 127"),
        ("i16", "32768", "elements of type i16 go from -32768 to 32767"),
        ("i32", "5000000000", "5000000000 can't be an element of i32["),
        ("f16", "100000.0", "elements of type f16 go up to 65504"),
        ("bf16", "3.4e38", "elements of type bf16 go up to 3.39e38"),
        ("f32", "1e39", "elements of type f32 go up to 3.4e38"),
        ("f32", "1e-400", "the number is too small for a float"),
    ],
)
@pytest.mark.parametrize("form", ["weight c : {}[2] = {}\noutput z + c", "output z + ({1})"])
def test_a_constant_that_the_element_type_does_not_have(
    dtype: str, number: str, message: str, form: str, tmp_path: Path
) -> None:
    problem = refused(f"input z : {dtype}[2]\n{form.format(dtype, number)}", tmp_path)
    assert problem.span is not None
    assert message in problem.render()


@pytest.mark.parametrize(
    "call",
    [
        "fill(; value = 300.0, dtype = u8, shape = [2])",
        "pad(z; before = [1], after = [1], value = 300.0)",
    ],
)
def test_a_call_that_gives_a_constant(call: str, tmp_path: Path) -> None:
    problem = refused(f"input z : u8[2]\noutput {call}", tmp_path)
    assert "from 0 to 255" in problem.render()


def test_an_attribute_that_a_float_would_change(tmp_path: Path) -> None:
    problem = refused(
        "input z : i64[2]\noutput fill(; value = 9007199254740993, dtype = i64, shape = [2])", tmp_path
    )
    assert "the nearest one is 9007199254740992" in problem.render()


def refused(statements: str, folder: Path) -> Diagnostic:
    """The only problem of a graph."""
    with pytest.raises(TsrError) as raised:
        graph(body(statements), folder)
    (problem,) = raised.value.diagnostics
    return problem


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("i64", ["9007199254740992", "-9007199254740992", "9007199254740994", "100000000000000000"]),
        *(("u8", ["0", "255"]), ("i8", ["-128", "127"]), ("i32", ["-2147483648", "2147483647"])),
        *(("f16", ["65504.0", "-65504", "1e-30"]), ("f32", ["3.4e38", "0e-400", "0.0"]), ("f64", ["1e308"])),
    ],
)
def test_the_greatest_constants(dtype: str, numbers: list[str], tmp_path: Path) -> None:
    for number in numbers:
        nodes = graph(body(f"input z : {dtype}[2]\noutput z + {number}"), tmp_path).nodes
        assert [n.attr("value") for n in nodes if n.op == "fill"] == [float(number)]
