"""From an ONNX model to a graph.

The graph has a node for each value of the model that it computes; the node's ``name`` is the value's. What the
language has no operator for is opaque, and what it has no type for is a handle (`HANDLE`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import copysign, isfinite
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Attrs, Graph, GraphBuilder
from tensat_dl.core.source import Source
from tensat_dl.core.types import TensorType
from tensat_dl.lang.library import library_operators
from tensat_dl.lang.program import Program, load_program
from tensat_dl.onnx.branches import resolved
from tensat_dl.onnx.dims import bind
from tensat_dl.onnx.facts import ModelFacts
from tensat_dl.onnx.inputs import read_inputs, sizes
from tensat_dl.onnx.numbers import meant
from tensat_dl.onnx.old_opsets import converted, is_older
from tensat_dl.onnx.opaque import Originals, operands
from tensat_dl.onnx.open_nodes import fixed_sizes
from tensat_dl.onnx.operator import Context, Reading, Unmapped
from tensat_dl.onnx.operators import READ
from tensat_dl.onnx.reading import NEWEST, failed, opset, read_model
from tensat_dl.onnx.types import DTYPES, HANDLE, shape_of, tensor_type
from tensat_dl.ops.semantics.types import Array


@dataclass(frozen=True)
class Imported:
    """A model, its graph, and what leads from one to the other.

    ``aliases`` are values that are another value of the model (name -> name), ``originals`` the nodes of opaque
    operators. ``unmapped`` says why nodes are opaque: (operator, reason) -> how many.
    """

    path: str
    model: ir.Model
    graph: Graph
    program: Program
    header: str  #: the declarations of the opaque operators
    dims: Mapping[str, int]  #: sizes of the dimensions that the model leaves open
    elsewhere: Sequence[
        Mapping[str, tuple[int, ...]]
    ]  #: shapes of values where one of these is twice as large
    constants: Mapping[str, ir.TensorProtocol]
    aliases: Mapping[str, str]
    originals: Mapping[str, ir.Node]
    unmapped: Mapping[tuple[str, str], int]
    nodes: int  #: of the model, constants aside
    older: int = 0  #: the operator set of the file, if the model was converted from that
    given: Mapping[str, Array] | None = None  #: inputs of the user's

    @property
    def opaque(self) -> int:
        """How many nodes are opaque."""
        return sum(self.unmapped.values())

    def fixed_sizes(self, egraph: EGraph) -> BoolArray:
        """[N] which e-nodes of what was explored hold for the given sizes of the open dimensions only."""
        return fixed_sizes(egraph, self.graph, self.program.ops, self.elsewhere)


def import_model(
    path: str, dims: Mapping[str, int], rules: Sequence[str] = (), inputs: str | None = None
) -> Imported:
    """Reads a model. ``dims`` are sizes of its open dimensions, which an .npz file of ``inputs`` gives, too. Raises
    `TsrError`."""
    model, older = read_model(path), 0
    if is_older(model):
        model, older = converted(model, path), opset(model)
    given = None if inputs is None else read_inputs(inputs, model)
    if inputs is not None and given is not None:
        dims = sizes(inputs, model, given, dims)
    bound = bind(path, model, dims)
    facts, *others = resolved(model, [bound, *({**bound, name: 2 * size} for name, size in bound.items())])
    reader = _ModelReader(path, model, facts)
    graph = reader.graph()
    header = "\n\n".join(reader.originals.declarations.values())
    program = load_program(path, tuple(rules), Source(path, header))
    return Imported(
        path,
        model,
        graph,
        program,
        header,
        bound,
        [f.shapes() for f in others],
        facts.constants,
        reader.aliases,
        reader.originals.nodes,
        reader.unmapped,
        reader.nodes,
        older,
        given,
    )


class _ModelReader:
    def __init__(self, path: str, model: ir.Model, facts: ModelFacts) -> None:
        self.path = path
        self.model = model
        self.facts = facts
        self.builder = GraphBuilder(model.graph.name or Path(path).stem)
        self.originals = Originals(self._is_constant)
        self.aliases: dict[str, str] = {}
        self.unmapped: Counter[tuple[str, str]] = Counter()
        self.nodes = 0
        self._index: dict[str, int] = {}  #: value -> node of the graph
        self._handles: set[str] = set()
        ops = library_operators()
        self._context = Context(
            facts, ops, self.builder, opset(model), self._operand, self._handles.__contains__
        )

    def graph(self) -> Graph:
        for value in self.model.graph.inputs:
            name = str(value.name)
            if name not in self.facts.constants:
                self._leaf("input", name, self._type(name))
        for node in self.model.graph:
            if all(self._is_constant(v) for v in node.outputs if v.name):
                continue  # where something needs its value, it is a weight
            self.nodes += 1
            try:
                self._bind(node, self._read(node))
            except Unmapped as reason:
                self.unmapped[node.op_type, str(reason)] += 1
                self._bind(node, self._pass_through(node))
        outputs = []
        for value in self.model.graph.outputs:
            found = self._operand(str(value.name))
            if found is None:
                raise failed(self.path, f"nothing computes the output {value.name}", "the model is not valid")
            outputs.append((str(value.name), found))
        self.builder.opaque = frozenset(self.originals.declarations)
        return self.builder.finish(outputs)

    # ---- nodes -------------------------------------------------------------------------------------------

    def _read(self, node: ir.Node) -> Sequence[int]:
        """A node by the table of operators. Raises `Unmapped`."""
        read = READ.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if read is None:
            raise Unmapped("no such operator")
        schema = onnx.defs.get_schema(node.op_type, self._context.opset)
        if schema.since_version > NEWEST:
            raise Unmapped(f"opset {schema.since_version} changed it")
        found = read(Reading(node, self._context))
        results = [found] if isinstance(found, int) else list(found)
        for value, result in zip(node.outputs, results, strict=False):
            if value.name and self._type(str(value.name)) != self.builder.nodes[result].type:
                raise Unmapped(f"its type is {self.builder.nodes[result].type} in one place")
        return results

    def _pass_through(self, node: ir.Node) -> list[int]:
        """An opaque node; a value for each output, -1 for those that are left out."""
        inputs = []
        for value in operands(node, self._is_constant):
            found = self._operand(str(value.name))
            if found is None:
                message = f"a node {node.op_type} takes {value.name}, which nothing computes before it"
                raise failed(self.path, message, "the model is not valid")
            inputs.append(found)
        names = [str(v.name) for v in node.outputs if v.name]
        for name in names:
            if tensor_type(self.facts.types.get(name)) is None:
                self._handles.add(name)
        types = tuple(self._type(name) for name in names)
        op, attrs = self.originals.add(node, len(inputs), types)
        whole = self.builder.add(op, inputs, attrs, types)
        if len(types) == 1:
            results = iter([whole])
        else:
            results = iter(
                [self.builder.add("proj", (whole,), (("index", k),), (t,)) for k, t in enumerate(types)]
            )
        return [next(results) if v.name else -1 for v in node.outputs]

    def _bind(self, node: ir.Node, results: Sequence[int]) -> None:
        """Names the results of a node."""
        for value, result in zip(node.outputs, results, strict=False):
            name = str(value.name)
            if result < 0 or not value.name:
                continue
            self._index[name] = result
            known = self.builder.nodes[result]
            if known.name:
                self.aliases[name] = known.name
            else:
                self.builder.nodes[result] = replace(known, name=name)

    # ---- values ------------------------------------------------------------------------------------------

    def _type(self, name: str) -> TensorType:
        return tensor_type(self.facts.types.get(name)) or HANDLE

    def _is_constant(self, value: ir.Value) -> bool:
        return str(value.name) in self.facts.constants

    def _operand(self, name: str) -> int | None:
        """The node of a value, made now if it is a constant."""
        if name in self._index:
            return self._index[name]
        tensor = self.facts.constants.get(name)
        if tensor is None:
            return None
        known = _number(tensor) or _places(tensor)
        if known is None:
            return self._leaf("weight", name, self._type(name))
        op, attrs, type = known
        found = self._index[name] = self.builder.add(op, (), attrs, (type,))
        if not self.builder.nodes[found].name:
            self.builder.nodes[found] = replace(self.builder.nodes[found], name=name)
        return found

    def _leaf(self, op: str, name: str, type: TensorType) -> int:
        if tensor_type(self.facts.types.get(name)) is None:
            self._handles.add(name)
        attrs = (("name", name), ("dtype", type.dtype), ("shape", type.shape))
        self._index[name] = self.builder.add(op, (), attrs, (type,), name)
        return self._index[name]


def _number(tensor: ir.TensorProtocol) -> tuple[str, Attrs, TensorType] | None:
    """A constant with one element is a number, if a float is one that is stored as this element."""
    dtype = DTYPES.get(tensor.dtype)
    if tensor.size != 1 or dtype is None:
        return None
    element = tensor.numpy().reshape(-1)[0]
    value = meant(element)
    if not isfinite(value) or np.array(value).astype(element.dtype) != element:
        return None
    if value == 0 and copysign(1, value) < 0:
        return None
    type = TensorType(dtype, shape_of(tensor))
    return "fill", (("value", value), ("dtype", dtype), ("shape", type.shape)), type


def _places(tensor: ir.TensorProtocol) -> tuple[str, Attrs, TensorType] | None:
    """The integers 0, 1, .., n - 1 along one dimension are places."""
    dtype, shape = DTYPES.get(tensor.dtype), shape_of(tensor)
    if dtype not in ("i32", "i64") or sum(d != 1 for d in shape) != 1:
        return None
    if not np.array_equal(tensor.numpy().reshape(-1), np.arange(tensor.size)):
        return None
    axis = next(i for i, d in enumerate(shape) if d != 1)
    return "iota", (("shape", shape), ("axis", axis), ("dtype", dtype)), TensorType(dtype, shape)
