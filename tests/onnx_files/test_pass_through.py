"""What the language has no word for goes through a round trip untouched: control flow, recurrent networks, integer
arithmetic, random numbers, values whose type is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
from onnx.helper import make_graph, make_node

from tensat_dl.core.diagnostics import Source
from tensat_dl.lang.program import load_program
from tensat_dl.run.pipeline import optimize

from .models import model, operators, random, read, rewriting, round_trip, tensor, value

BOOL, I64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64


def subgraph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return make_graph(nodes, "inside", inputs, outputs)


def branches() -> Any:
    """If: both branches take values from around them, which have no other use."""
    then = subgraph([make_node("Relu", ["r"], ["p"])], [], [value("p", 2, 3)])
    other = [make_node("Neg", ["r"], ["n"]), make_node("Add", ["n", "e"], ["q"])]
    nodes = [
        make_node("Relu", ["x"], ["r"]),
        make_node("Exp", ["x"], ["e"]),
        make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        make_node("Greater", ["s", "zero"], ["c"]),
        make_node("If", ["c"], ["y"], then_branch=then, else_branch=subgraph(other, [], [value("q", 2, 3)])),
        make_node("Add", ["y", "r"], ["z"]),
    ]
    return model(nodes, [value("x", 2, 3)], [value("z", 2, 3)], [tensor("zero", 0)])


def loop() -> Any:
    """Loop, with a missing input, and a result of unknown length."""
    body = subgraph(
        [
            make_node("Add", ["acc", "x"], ["next"]),
            make_node("Identity", ["next"], ["scan"]),
            make_node("Identity", ["go"], ["on"]),
        ],
        [value("i", dtype=I64), value("go", dtype=BOOL), value("acc", 2, 3)],
        [value("on", dtype=BOOL), value("next", 2, 3), value("scan", 2, 3)],
    )
    nodes = [
        make_node("Relu", ["x0"], ["x"]),
        make_node("Loop", ["times", "", "x"], ["last", "all"], body=body),
        make_node("Exp", ["last"], ["y"]),
    ]
    return model(
        nodes,
        [value("x0", 2, 3)],
        [value("y", 2, 3), value("all", "n", 2, 3)],
        [tensor("times", 3, np.int64)],
    )


def lstm() -> Any:
    """LSTM without its last output."""
    nodes = [
        make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        make_node("LSTM", ["t", "w", "r", "b"], ["all", "last"], hidden_size=4),
        make_node("Squeeze", ["last"], ["h"]),
        make_node("Relu", ["h"], ["y"]),
    ]
    weights = [random("w", 1, 16, 3), random("r", 1, 16, 4), random("b", 1, 32)]
    return model(nodes, [value("x", 2, 5, 3)], ["y", "all"], weights)


def int8() -> Any:
    """Dynamic quantization, and weights that are stored in eight bits."""
    nodes = [
        make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "zp"]),
        make_node("MatMulInteger", ["q", "w", "zp"], ["m"]),
        make_node("Cast", ["m"], ["f"], to=1),
        make_node("Mul", ["f", "s"], ["y"]),
        make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        make_node("MatMul", ["x", "d"], ["z"]),
    ]
    w = tensor("w", np.arange(12).reshape(3, 4) - 6, np.int8)
    return model(nodes, [value("x", 2, 3)], ["y", "z"], [w, tensor("scale", 0.1)])


def unknown_shapes() -> Any:
    """What NonZero finds is known when the model runs."""
    nodes = [
        make_node("Relu", ["x"], ["r"]),
        make_node("NonZero", ["r"], ["nz"]),
        make_node("Transpose", ["nz"], ["t"]),
        make_node("GatherND", ["x", "t"], ["g"]),
        make_node("ReduceSum", ["g"], ["y"], keepdims=0),
    ]
    return model(nodes, [value("x", 2, 3)], [value("y"), value("t", "n", 2, dtype=I64)])


def other_types() -> Any:
    """Element types that the language does not have, and an initialiser without elements."""
    nodes = [
        make_node("Cast", ["x"], ["u"], to=onnx.TensorProto.UINT16),
        make_node("Cast", ["u"], ["v"], to=1),
        make_node("Resize", ["v", "none", "", "sizes"], ["w"], mode="nearest"),
        make_node("Relu", ["w"], ["y"]),
    ]
    weights = [tensor("none", []), tensor("sizes", [1, 1, 4, 4], np.int64)]
    return model(nodes, [value("x", 1, 1, 2, 2)], ["y"], weights)


def interface() -> Any:
    """Outputs that are inputs, constants or each other; an input without use; a constant with a scalar of its own."""
    nodes = [
        make_node("Identity", ["x"], ["y"]),
        make_node("Constant", [], ["k"], value=tensor("", [1.0, 2.0])),
        make_node("Constant", [], ["half"], value_float=0.5),
        make_node("Add", ["x", "k"], ["z"]),
        make_node("Mul", ["z", "half"], ["m"]),
        make_node("Identity", ["m"], ["n"]),
    ]
    outputs = [value(name, 2) for name in ("y", "x", "k", "z", "m", "n")]
    return model(nodes, [value("x", 2), value("unused", 3)], outputs)


MODELS = {f.__name__: f for f in (branches, loop, lstm, int8, unknown_shapes, other_types, interface)}
OPAQUE = {
    "branches": {"If"},
    "loop": {"Loop_2", "Exp"},
    "lstm": {"LSTM_2"},
    "int8": {"DynamicQuantizeLinear_3", "MatMulInteger", "DequantizeLinear_constant"},
    "unknown_shapes": {"NonZero", "Transpose", "GatherND", "ReduceSum"},
    "other_types": {"Cast"},
    "interface": set(),
}


@pytest.mark.parametrize("name", MODELS)
def test_pass_through(name: str, tmp_path: Path) -> None:
    imported = read(tmp_path, MODELS[name]())
    assert {op for op in operators(imported.graph) if op[0].isupper()} == OPAQUE[name]
    found = round_trip(tmp_path, imported)
    assert (found.status, found.message) == ("agrees", "")
    found = rewriting(tmp_path, imported)
    assert (found.status, found.message) == ("agrees", "")


@pytest.mark.parametrize("name", [n for n in MODELS if n != "interface"])
def test_nothing_changes_in_a_model_that_no_rule_changed(name: str, tmp_path: Path) -> None:
    imported = read(tmp_path, MODELS[name]())
    assert not imported.aliases
    round_trip(tmp_path, imported)
    before, after = (onnx.load(tmp_path / file).graph for file in ("model.onnx", "out.onnx"))
    assert [str(n) for n in before.node] == [str(n) for n in after.node]
    assert [str(n) for n in (*before.input, *before.output)] == [
        str(n) for n in (*after.input, *after.output)
    ]
    assert [n.name for n in before.initializer] == [n.name for n in after.initializer]


def test_an_opaque_operator_with_several_results_is_explored(tmp_path: Path) -> None:
    """Its operands are of different ranks, as the condition of an If and what its branches take."""
    results = [value("a", 2, 3), value("b", 3)]
    inside = [make_node("Relu", ["r"], ["a"]), make_node("ReduceMax", ["r"], ["b"], axes=[0], keepdims=0)]
    nodes = [
        make_node("Relu", ["x"], ["q"]),
        make_node("Relu", ["q"], ["r"]),
        make_node(
            "If",
            ["c"],
            ["y", "z"],
            then_branch=subgraph(inside, [], results),
            else_branch=subgraph(inside, [], results),
        ),
    ]
    inputs = [value("x", 2, 3), value("c", dtype=BOOL)]
    imported = read(tmp_path, model(nodes, inputs, [value("y", 2, 3), value("z", 3)]))
    program = load_program("none", ("activation",), Source("none", imported.header))
    result, _ = optimize(imported.graph, program.ops, program.rules)
    assert operators(result.after.graph) == ["relu", "If_2"]
    assert round_trip(tmp_path, imported, result.after.graph).status == "agrees"


def conditional(asked: str) -> Any:
    """Branches with a weight, names that they share with each other, and what they take from around them."""
    branch = [
        make_graph(
            [make_node("Mul", ["r", "k"], ["m"], "n"), make_node(op, ["m"], ["p"])],
            "b",
            [],
            [value("p", "n", 3)],
            [random("k", 3)],
        )
        for op in ("Exp", "Neg")
    ]
    nodes = [
        make_node("Relu", ["x"], ["r"], "n"),
        make_node("Shape", ["x"], ["s"]),
        make_node("Gather", ["s", asked], ["d"], axis=0),
        make_node("Equal", ["d", "three"], ["c"]),
        make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1]),
        make_node("Add", ["y", "r"], ["z"]),
    ]
    weights = [tensor(name, i, np.int64) for name, i in (("first", 0), ("last", 1), ("three", 3))]
    return model(nodes, [value("x", "n", 3)], [value("z", "n", 3), value("y", "n", 3)], weights)


def test_a_condition_that_is_known_leaves_one_branch(tmp_path: Path) -> None:
    """Known is what holds for every size of open dimensions."""
    imported = read(tmp_path, conditional("last"), {"n": 3})
    assert operators(imported.graph) == ["relu", "ewmul", "exp", "ewadd"]
    assert round_trip(tmp_path, imported).status == "agrees"
    assert rewriting(tmp_path, imported).status == "agrees"
    imported = read(tmp_path, conditional("first"), {"n": 3})
    assert "If" in operators(imported.graph)
    assert round_trip(tmp_path, imported).status == "agrees"


def test_random_numbers_are_not_shared(tmp_path: Path) -> None:
    """Two equal nodes are one, unless they compute other values each time."""
    nodes = [
        make_node("RandomNormalLike", ["x"], ["a"]),
        make_node("RandomNormalLike", ["x"], ["b"]),
        make_node("Sign", ["x"], ["c"]),
        make_node("Sign", ["x"], ["d"]),
        make_node("Sum", ["a", "b", "c", "d"], ["y"]),
    ]
    graph = read(tmp_path, model(nodes, [value("x", 3)], ["y"])).graph
    assert [graph.count()[op] for op in ("RandomNormalLike", "Sign")] == [2, 1]


def test_random_functions_are_not_shared(tmp_path: Path) -> None:
    """Neither those of the model, nor those that call them; others are."""
    inner = make_node("RandomNormalLike", ["a"], ["b"])
    call = make_node("Noise", ["a"], ["b"], domain="com.microsoft")
    plain = make_node("Sign", ["a"], ["b"])
    bodies = {"Noise": inner, "Caller": call, "Plain": plain}
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    nodes = [
        make_node(name, ["x"], [f"{name}{k}"], domain="com.microsoft")
        for name in ("Caller", "Noise", "Plain")
        for k in (0, 1)
    ]
    results = [f"{name}{k}" for name in ("Caller", "Noise", "Plain") for k in (0, 1)]
    proto = model(
        [*nodes, make_node("Sum", results, ["y"])],
        [value("x", 3)],
        [value("y", 3)],
        domains={"com.microsoft": 1},
    )
    proto.functions.extend(
        onnx.helper.make_function("com.microsoft", name, ["a"], ["b"], [body], opsets)
        for name, body in bodies.items()
    )
    proto.graph.value_info.extend(value(name, 3) for name in results)
    counted = read(tmp_path, proto).graph.count()
    assert [counted[f"com_microsoft_{name}"] for name in bodies] == [2, 2, 1]


def test_constants_that_a_node_takes_tell_it_from_others(tmp_path: Path) -> None:
    nodes = [
        make_node("Mod", ["x", "low"], ["a"], fmod=1),
        make_node("Mod", ["x", "high"], ["b"], fmod=1),
        make_node("Sub", ["a", "b"], ["y"]),
    ]
    proto = model(nodes, [value("x", 3)], ["y"], [tensor("low", 2), tensor("high", 1)])
    assert read(tmp_path, proto).graph.count()["Mod"] == 2


def test_constants_that_are_computed_tell_nodes_apart_too(tmp_path: Path) -> None:
    """The shapes are known, but no initialisers: they come from those of other tensors."""
    nodes = [
        make_node("Shape", ["a"], ["s"]),
        make_node("Shape", ["b"], ["t"]),
        make_node("Tile", ["x", "s"], ["y"]),
        make_node("Tile", ["x", "t"], ["z"]),
    ]
    inputs = [value("x", 1, 1), value("a", 2, "n"), value("b", "n", 3)]
    outputs = [value("y", 2, "n"), value("z", "n", 3)]
    imported = read(tmp_path, model(nodes, inputs, outputs), {"n": 4})
    assert imported.graph.count()["Tile"] == 2
    assert rewriting(tmp_path, imported).status == "agrees"


def test_an_initialiser_that_the_caller_may_replace_is_an_input(tmp_path: Path) -> None:
    """As an input it has a default only; before IR version 4 every initialiser was an input, and constant."""
    nodes = [make_node("MatMul", ["x", "w"], ["y"])]
    for ir_version, op in ((3, "weight"), (8, "input")):
        proto = model(nodes, [value("x", 2, 3), value("w", 3, 4)], ["y"], [random("w", 3, 4)], 11)
        proto.ir_version = ir_version
        graph = read(tmp_path, proto).graph
        assert [n.op for n in graph.nodes if n.name == "w"] == [op]
