"""Random models: whatever they are made of, they come back as models that compute the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx.helper import make_graph, make_node

from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.print_graph import graph_to_tsr
from tensat_dl.lang.program import load_program

from .models import model, random, read, rewriting, round_trip, tensor, value

SIZE = 4
UNARY = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Exp",
    "Erf",
    "Neg",
    "Abs",
    "Identity",
    "HardSwish",
    "Dropout",
    "Softplus",
)
BINARY = ("Add", "Sub", "Mul", "Max", "MatMul", "PRelu", "Sum")


@st.composite
def models(draw: st.DrawFn) -> Any:
    """Every value is [2, 4, 4], so that everything fits to everything. Operators are known and unknown ones."""
    values = ["x", "y", "w"]
    constants = [random("w", 2, SIZE, SIZE), random("v", SIZE), random("m", SIZE, SIZE), tensor("half", 0.5)]
    nodes = []
    for i in range(draw(st.integers(1, 12))):
        a, b = (draw(st.sampled_from(values)) for _ in range(2))
        out = f"t{i}"
        match draw(st.sampled_from(("unary", "binary", "constant", "move", "split", "if"))):
            case "unary":
                nodes.append(make_node(draw(st.sampled_from(UNARY)), [a], [out]))
            case "binary":
                nodes.append(make_node(draw(st.sampled_from(BINARY)), [a, b], [out]))
            case "constant":
                nodes.append(
                    make_node(
                        draw(st.sampled_from(("Add", "Mul", "Div"))),
                        [a, draw(st.sampled_from(("v", "m", "half")))],
                        [out],
                    )
                )
            case "move":
                perm = draw(st.sampled_from(([0, 2, 1], [0, 1, 2])))
                nodes.append(make_node("Transpose", [a], [out], perm=perm))
            case "split":
                axis = draw(st.integers(1, 2))
                nodes.append(make_node("Split", [a], [f"{out}l", f"{out}r"], axis=axis, num_outputs=2))
                parts = draw(st.permutations([f"{out}l", f"{out}r"]))
                nodes.append(make_node("Concat", parts, [out], axis=axis))
            case _:
                nodes += [make_node("ReduceMax", [a], [f"{out}m"], keepdims=0)]
                nodes += [make_node("Greater", [f"{out}m", "half"], [f"{out}c"])]
                branches = {
                    name: branch(name, make_node(op, [b], [f"{out}{name}"]), f"{out}{name}")
                    for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
                }
                nodes.append(make_node("If", [f"{out}c"], [out], **branches))
        values.append(out)
    shape = (2, SIZE, SIZE)
    outputs = draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3, unique=True))
    inputs = [value("x", *shape), value("y", *shape)]
    return model(nodes, inputs, [value(o, *shape) for o in outputs], constants, 18)


def branch(name: str, node: Any, output: str) -> Any:
    return make_graph([node], name, [], [value(output, 2, SIZE, SIZE)])


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(models())
def test_round_trips(proto: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        imported = read(Path(folder), proto)
        for found in (round_trip(Path(folder), imported), rewriting(Path(folder), imported)):
            assert (found.status, found.message) == ("agrees", "")


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(models())
def test_the_text_reads_back_as_the_same_graph(proto: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        imported = read(Path(folder), proto)
        text = graph_to_tsr(imported.graph, imported.program.ops, imported.header)
        path = Path(folder) / "model.tsr"
        path.write_text(text)
        program = load_program(str(path))
        (item,) = program.graphs.values()
        assert (
            graph_to_tsr(elaborate(item, program.ops, program.blocks), program.ops, imported.header) == text
        )
