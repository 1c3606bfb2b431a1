"""Small models made for the tests, and round trips of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from tensat_dl.core.graph import Graph, Node
from tensat_dl.onnx.agreement import Reference
from tensat_dl.onnx.exporter import export
from tensat_dl.onnx.importer import Imported, import_model
from tensat_dl.verify.equivalence import Agreement

#: What a graph does not compute.
LEAVES = ("input", "weight", "fill", "iota")

#: The IR version that came with an opset, as exporters write it.
IR_VERSIONS = {11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}


def tensor(name: str, array: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def random(name: str, *shape: int, dtype: Any = np.float32) -> onnx.TensorProto:
    """A weight."""
    generator = np.random.default_rng(sum(map(ord, name)))
    return tensor(name, generator.standard_normal(shape) / 2, dtype)


def value(name: str, *shape: int | str | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, list(shape))


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto | str],
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model; an output that is a name alone is a tensor of floats of any shape."""
    outs = [helper.make_tensor_value_info(o, 1, None) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(nodes, "small", inputs, outs, weights)
    opsets = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(d, n) for d, n in (domains or {}).items()),
    ]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSIONS.get(opset, 10))
    return onnx.shape_inference.infer_shapes(made) if any(isinstance(o, str) for o in outputs) else made


def saved(tmp_path: Path, proto: onnx.ModelProto, name: str = "model.onnx") -> str:
    path = tmp_path / name
    onnx.save(proto, path)
    return str(path)


def read(tmp_path: Path, proto: onnx.ModelProto, dims: Mapping[str, int] | None = None) -> Imported:
    return import_model(saved(tmp_path, proto), dims or {})


def round_trip(tmp_path: Path, imported: Imported, graph: Graph | None = None) -> Agreement:
    """Writes a graph (the model's own if there is none) back, and compares in ONNX Runtime."""
    out = export(imported, graph or imported.graph)
    ir.save(out, tmp_path / "out.onnx")
    return Reference(imported.model, imported.path, imported.dims).check(str(tmp_path / "out.onnx"))


def rewritten(imported: Imported) -> Imported:
    """The same, but as if no node of the graph were in the model: all of them are written anew."""
    graph = imported.graph
    leaves = [n for n in graph.nodes if n.op in LEAVES]
    types = [graph.nodes[i].type for _, i in graph.outputs]
    others = [Node("input", (), (("name", f"none {k}"),), (t,)) for k, t in enumerate(types)]
    outputs = [(name, len(leaves) + k) for k, (name, _) in enumerate(graph.outputs)]
    return replace(imported, graph=Graph(graph.name, (*leaves, *others), tuple(outputs)))


def rewriting(tmp_path: Path, imported: Imported) -> Agreement:
    """Writes every node anew, in the model's opset, and compares."""
    return round_trip(tmp_path, rewritten(imported), imported.graph)


def operators(graph: Graph) -> list[str]:
    """What a graph computes with."""
    return [n.op for n in graph.nodes if n.op not in LEAVES and n.op != "proj"]
