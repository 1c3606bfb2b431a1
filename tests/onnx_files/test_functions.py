"""Models with functions of their own: the bodies take the place of calls, and the answer agrees with the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx import TensorProto, helper
from onnx.helper import make_node, make_opsetid

from tests.cli.running import invoke

from .models import model, operators, random, read, rewriting, round_trip, saved, value
from .refusing import refused

pytestmark = pytest.mark.sampled(4)

OWN = "own.functions"


def call(name: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return make_node(name, inputs, outputs, domain=OWN, **attributes)


def function(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Sequence[onnx.NodeProto],
    opset: int = 17,
    attributes: Sequence[str] = (),
    defaults: Sequence[onnx.AttributeProto] = (),
    domain: str = OWN,
    domains: Sequence[str] = (),
) -> onnx.FunctionProto:
    opsets = [make_opsetid("", opset), *(make_opsetid(d, 1) for d in (OWN, *domains))]
    return helper.make_function(domain, name, inputs, outputs, nodes, opsets, attributes, defaults)


def calling(
    nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto], *inputs: onnx.ValueInfoProto
) -> onnx.ModelProto:
    """A model of x : f32[3, 4] with the output y of the same shape."""
    domains = {f.domain: 1 for f in functions if f.domain}
    proto = model(nodes, [value("x", 3, 4), *inputs], [value("y", 3, 4)], opset=17, domains=domains)
    proto.functions.extend(functions)
    return proto


def referring(node: onnx.NodeProto, **attributes: str) -> onnx.NodeProto:
    """A node with float attributes that are those of the function."""
    for name, of in attributes.items():
        node.attribute.add(name=name, ref_attr_name=of, type=onnx.AttributeProto.FLOAT)
    return node


SILU = function(
    "Silu",
    ["a"],
    ["b"],
    [make_node("Sigmoid", ["a"], ["s"], name="inner"), make_node("Mul", ["a", "s"], ["b"])],
)
LEAKY = function(
    "Leaky",
    ["a"],
    ["b"],
    [referring(make_node("LeakyRelu", ["a"], ["b"]), alpha="slope")],
    defaults=[helper.make_attribute("slope", 0.75)],
)


def twice() -> onnx.ModelProto:
    """Calls of a function that calls another; names in both are names of the model, too."""
    nodes = [make_node("Neg", ["x"], ["s"], name="inner"), call("Twice", ["s"], ["h"])]
    inner = [call("Silu", ["a"], ["s"]), call("Silu", ["s"], ["b"])]
    body = function("Twice", ["a"], ["b"], inner)
    return calling([*nodes, make_node("Add", ["h", "s"], ["y"])], [body, SILU])


def in_branches() -> onnx.ModelProto:
    """A call in a branch, and a function with branches that take a value of its body."""
    then = helper.make_graph([call("Silu", ["x"], ["t"])], "then", [], [value("t", 3, 4)])
    other = helper.make_graph([make_node("Neg", ["x"], ["e"])], "else", [], [value("e", 3, 4)])
    inner = helper.make_graph([make_node("Mul", ["a", "s"], ["t"])], "then", [], [value("t", 3, 4)])
    plain = helper.make_graph([make_node("Neg", ["s"], ["e"])], "else", [], [value("e", 3, 4)])
    nodes = [
        make_node("If", ["c"], ["h"], then_branch=then, else_branch=other),
        call("Either", ["h", "c"], ["k"]),
        call("Either", ["k", "c"], ["y"]),
    ]
    body = [
        make_node("Sigmoid", ["a"], ["s"]),
        make_node("If", ["k"], ["b"], then_branch=inner, else_branch=plain),
    ]
    functions = [SILU, function("Either", ["a", "k"], ["b"], body)]
    return calling(nodes, functions, value("c", dtype=TensorProto.BOOL))


CASES = {
    "nested": (twice(), ["neg", "sigmoid", "ewmul", "sigmoid", "ewmul", "ewadd"]),
    "an attribute": (calling([call("Leaky", ["x"], ["y"], slope=0.25)], [LEAKY]), ["leakyrelu"]),
    "a default": (calling([call("Leaky", ["x"], ["y"])], [LEAKY]), ["leakyrelu"]),
    "a default within": (
        calling(
            [call("Two", ["x"], ["y"], slope=0.5)],
            [
                LEAKY,
                function(
                    "Two",
                    ["a"],
                    ["c"],
                    [call("Leaky", ["a"], ["b"]), referring(call("Leaky", ["b"], ["c"]), slope="slope")],
                    attributes=["slope"],
                ),
            ],
        ),
        ["leakyrelu", "leakyrelu"],
    ),
    "an input that is left out": (
        calling(
            [call("Low", ["x"], ["y"])],
            [function("Low", ["a", "low"], ["b"], [make_node("Clip", ["a", "low"], ["b"])])],
        ),
        None,
    ),
    "an output that is left out": (
        calling(
            [call("Two", ["x"], ["", "y"])],
            [
                function(
                    "Two",
                    ["a"],
                    ["b", "c"],
                    [make_node("Relu", ["a"], ["b"]), make_node("Neg", ["a"], ["c"])],
                )
            ],
        ),
        ["neg"],
    ),
    "branches": (in_branches(), None),
    "another opset with the same operators": (
        calling(
            [call("F", ["x"], ["y"])],
            [function("F", ["a"], ["b"], [make_node("Relu", ["a"], ["b"])], opset=18)],
        ),
        ["relu"],
    ),
    "a domain that the model does not import": (
        calling(
            [call("F", ["x"], ["y"])],
            [
                function(
                    "F",
                    ["a"],
                    ["c"],
                    [
                        make_node("Relu", ["a"], ["b"]),
                        make_node("QuickGelu", ["b"], ["c"], domain="com.microsoft"),
                    ],
                    domains=["com.microsoft"],
                )
            ],
        ),
        ["relu", "com_microsoft_QuickGelu"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bodies_take_the_place_of_calls(name: str, tmp_path: Path) -> None:
    proto, expected = CASES[name]
    imported = read(tmp_path, proto)
    assert not imported.model.functions
    if expected is not None:
        assert operators(imported.graph) == expected
    for found in (round_trip(tmp_path, imported), rewriting(tmp_path, imported)):
        assert (found.status, found.message) == ("agrees", "")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        (
            calling(
                [call("Sums", ["x"], ["k"]), make_node("Add", ["x", "k"], ["y"])],
                [
                    function(
                        "Sums",
                        ["a"],
                        ["b"],
                        [
                            make_node("Constant", [], ["axes"], value_ints=[1]),
                            make_node("ReduceMean", ["a", "axes"], ["b"]),
                        ],
                        opset=18,
                    )
                ],
            ),
            "Sums (a function of opset 18) ×1",
        ),
        (
            calling(
                [make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")],
                [
                    function(
                        "QuickGelu", ["a"], ["b"], [make_node("Neg", ["a"], ["b"])], domain="com.microsoft"
                    )
                ],
            ),
            "QuickGelu (the model has a function of this name) ×1",
        ),
    ],
)
def test_what_is_not_put_in_place_stays(proto: onnx.ModelProto, said: str, tmp_path: Path) -> None:
    """Functions of another opset, and those whose names ONNX Runtime has."""
    imported = read(tmp_path, proto)
    assert said in imported.summary()
    assert len(imported.model.functions) == 1


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    again = function("Again", ["a"], ["b"], [call("Again", ["a"], ["b"])])
    path = saved(tmp_path, calling([call("Again", ["x"], ["y"])], [again]))
    refused(path, say="Model-local functions must not be recursive", hint="the model is not valid")


@pytest.mark.parametrize("data", [False, True])
def test_a_run(data: bool, tmp_path: Path) -> None:
    """Products and sums of calls become one operator; weights may stand in another file."""
    linear = function(
        "Linear",
        ["x", "w", "b"],
        ["y"],
        [make_node("MatMul", ["x", "w"], ["m"]), make_node("Add", ["m", "b"], ["y"])],
    )
    nodes = [
        make_node("Relu", ["x"], ["r"], name="first"),
        call("Linear", ["r", "w", "b"], ["h"]),
        call("Linear", ["r", "v", "c"], ["k"]),
        make_node("Mul", ["h", "k"], ["y"]),
    ]
    weights = [random("w", 64, 64), random("v", 64, 64), random("b", 64), random("c", 64)]
    proto = model(nodes, [value("x", 8, 64)], [value("y", 8, 64)], weights, domains={OWN: 1})
    proto.functions.append(linear)
    helper.set_model_props(proto, {"kind": "small"})
    path, out = tmp_path / "model.onnx", tmp_path / "out" / "faster.onnx"
    out.parent.mkdir()
    onnx.save(
        proto, path, save_as_external_data=data, location="weights.bin" if data else None, size_threshold=0
    )
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert "6 nodes, none of them opaque" in " ".join(done.out.split())
    assert "agrees: largest error" in done.out
    made = onnx.load(out)
    onnx.checker.check_model(out, full_check=True)
    assert [n.op_type for n in made.graph.node] == ["Relu", "Gemm", "Gemm", "Mul"]
    assert made.graph.node[0].name == "first"
    assert [(p.key, p.value) for p in made.metadata_props] == [("kind", "small")]
    assert not made.functions
    shown = invoke("show", saved(tmp_path, twice(), "twice.onnx"))
    assert (shown.code, shown.err) == (0, "")
    assert "sigmoid" in shown.out
