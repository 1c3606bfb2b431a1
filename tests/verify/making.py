"""Builds typed graphs for tests: types inferred from the operator table, defaults filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensat_dl import resources
from tensat_dl.core.graph import Graph, GraphBuilder, TensorType
from tensat_dl.lang.program import load_program
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.typing import infer

TABLE = load_program(str(resources.rules() / "ops.tsr")).ops


class Maker:
    def __init__(self) -> None:
        self.builder = GraphBuilder("g")

    def op(self, op: str, *inputs: int, **attrs: Any) -> int:
        complete = {**defaults(TABLE[op]), **attrs}
        types = infer(TABLE, op, [self.builder.nodes[i].type for i in inputs], complete).concrete()
        return self.builder.add(op, inputs, tuple(complete.items()), types)

    def opaque(
        self, op: str, *inputs: int, shapes: Sequence[tuple[int, ...]], dtype: str = "f32", **attrs: Any
    ) -> int:
        types = tuple(TensorType(dtype, shape) for shape in shapes)
        return self.builder.add(op, inputs, tuple(attrs.items()), types)

    def proj(self, node: int, index: int) -> int:
        type_ = self.builder.nodes[node].types[index]
        return self.builder.add("proj", (node,), (("index", index),), (type_,))

    def input(self, name: str, *shape: int, dtype: str = "f32") -> int:
        return self.op("input", name=name, dtype=dtype, shape=shape)

    def weight(self, name: str, *shape: int, dtype: str = "f32") -> int:
        return self.op("weight", name=name, dtype=dtype, shape=shape)

    def graph(self, **outputs: int) -> Graph:
        return self.builder.finish(outputs.items())
