"""Rows of the operator tables, and the objects that their functions work with: `Reading` and `Writing`."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from tensat_dl.core.graph import AttrValue, GraphBuilder, TensorType
from tensat_dl.onnx.facts import ModelFacts
from tensat_dl.onnx.subgraphs import UniqueNames
from tensat_dl.onnx.tensors import numpy_dtype, shape_of, tensor_type
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.numbers import meant
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable, coerce
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import Absent

# ---- reading ---------------------------------------------------------------------------------------------


class Unmapped(Exception):
    """The language has no operator for this use of an ONNX operator, so the node is opaque. The message says why."""


class Misfit(Unmapped):
    """The operands do not fit: if this is so at some sizes of open dimensions, the model does not run at these."""


@dataclass(frozen=True)
class Reading:
    """One ONNX node that is being read into a graph. ``tensor`` gives the graph's node of a value, if it has one.
    Values that are ``varying`` have other values at other sizes of open dimensions: they are no constants."""

    node: ir.Node
    facts: ModelFacts
    ops: OpTable
    builder: GraphBuilder
    opset: int
    tensor: Callable[[str], int | None]
    varying: Container[str] = ()

    # ---- what the node says ------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        if attr.is_ref():
            raise Unmapped("an attribute takes its value from a function")
        return attr.value

    def number_attr(self, name: str, default: float) -> float:
        """The value of an attribute that is a float, an f32 in the file: the number that it stands for, but where f64
        are computed with it, the f32 itself."""
        value = np.float32(self.attr(name, default))
        return float(value) if self.result().dtype == "f64" else meant(value)

    def has(self, i: int) -> bool:
        """Whether the optional input ``i`` is there."""
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def is_known(self, i: int) -> bool:
        """Whether input ``i`` is a constant."""
        return (name := self._name(i)) in self.facts.constants and name not in self.varying

    def constant(self, i: int) -> Array:
        """The value of input ``i``. Raises `Unmapped` if it is not a small constant."""
        array = self.facts.small(name := self._name(i))
        if array is None or name in self.varying:
            raise Unmapped(f"input {i} is not a constant")
        return array

    def list_of(self, i: int) -> list[Any]:
        """The elements of input ``i``. Raises `Unmapped` if it is not a small constant."""
        found: list[Any] = self.constant(i).reshape(-1).tolist()
        return found

    def number_of(self, i: int) -> float:
        """The value of input ``i``, one number. Raises `Unmapped` if it is not known, not finite, or an integer that
        no float is."""
        array = self.constant(i)
        if array.size != 1 or not isfinite(element := array.reshape(()).item()):
            raise Unmapped(f"input {i} is not one number")
        value = meant(array.reshape(-1)[0])
        if isinstance(element, int) and int(value) != element:
            raise Unmapped(f"input {i} has more digits than a float")
        return value

    def result(self, k: int = 0) -> TensorType:
        """The type of output ``k``, as ONNX infers it."""
        found = tensor_type(self.facts.types.get(str(self.node.outputs[k].name)))
        if found is None:
            raise Unmapped("the type of its output is not known")
        return found

    def only_result(self) -> None:
        """Raises `Unmapped` if an output beyond the first is used."""
        if any(out.name and (out.uses() or out.is_graph_output()) for out in self.node.outputs[1:]):
            raise Unmapped("an output beyond the first is used")

    # ---- the graph ---------------------------------------------------------------------------------------

    def x(self, i: int = 0) -> int:
        """The graph's node for input ``i``."""
        found = self.tensor(self._name(i))
        if found is None:
            raise Unmapped(f"the type of input {i} is not known")
        return found

    def xs(self) -> list[int]:
        """The graph's nodes for all inputs."""
        return [self.x(i) for i in range(len(self.node.inputs))]

    def type(self, node: int) -> TensorType:
        return self.builder.nodes[node].types[0]

    def op(self, op: str, *inputs: int, **attrs: AttrValue) -> int:
        """Adds an application, with defaults. Raises `Misfit` if it is not well-typed."""
        decl = self.ops[op]
        values = defaults(decl) | {a.name: coerce(a, attrs[a.name]) for a in decl.attrs if a.name in attrs}
        try:
            types = infer(self.ops, op, [self.type(j) for j in inputs], values).concrete()
        except (IllTyped, Absent) as e:
            raise Misfit(f"{op} requires that {e}") from None
        return self.builder.add(op, inputs, decl.ordered(values), types)

    def is_constant(self, node: int) -> bool:
        """Whether the graph's node is a constant."""
        return self.builder.nodes[node].op in ("weight", "fill", "iota")

    def scalars(self, *xs: int) -> list[int]:
        """``xs``, where constants of one element have rank 0 if that leaves what they broadcast to as it is."""
        rank = max((self.type(x).rank for x in xs if self.type(x).size > 1), default=0)
        found = []
        for x in xs:
            node = self.builder.nodes[x]
            scalar = node.op == "fill" and 0 < node.types[0].rank <= rank
            found.append(self.number(node.attr("value"), x) if scalar else x)
        return found

    def number(self, value: AttrValue, like: int, *shape: int) -> int:
        """A constant with the element type of node ``like`` that is ``value`` everywhere."""
        return self.op("fill", value=value, dtype=self.type(like).dtype, shape=shape)

    def reshaped(self, x: int, shape: Sequence[int]) -> int:
        """``x`` with another shape; itself if it has that one."""
        return x if self.type(x).shape == tuple(shape) else self.op("reshape", x, shape=tuple(shape))

    def axis(self, value: int, x: int) -> int:
        """An axis that may count from the end."""
        rank = self.type(x).rank
        if not -rank <= value < rank:
            raise Unmapped("the axis is out of range")
        return value % rank

    def _name(self, i: int) -> str:
        value = self.node.inputs[i] if i < len(self.node.inputs) else None
        if value is None:
            raise Unmapped(f"input {i} is missing")
        return str(value.name)


# ---- writing ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    """A value of the model that is being written, with its type in the graph.

    ``wide`` is the same value where its first dimensions are not yet flattened into one: ONNX multiplies [b, s, k] by
    [k, n] as it is. ``reduced`` has the operand, the operator and the axes of a reduction: ONNX reduces along several
    axes at once.
    """

    value: ir.Value
    type: TensorType
    wide: OnnxTensor | None = None
    reduced: tuple[str, ir.Value, tuple[int, ...]] | None = None


class NodeWriter:
    """Adds nodes and constants to a model's graph."""

    def __init__(self, graph: ir.Graph, opset: int) -> None:
        self.graph = graph
        self.opset = opset
        self.name = UniqueNames(graph).new
        self._constants: dict[tuple[Any, ...], ir.Value] = {}

    def op(self, op_type: str, *inputs: ir.Value | None, **attrs: Any) -> ir.Value:
        """Adds a node with one output."""
        (value,) = self.several(op_type, 1, *inputs, **attrs)
        return value

    def several(self, op_type: str, count: int, *inputs: ir.Value | None, **attrs: Any) -> Sequence[ir.Value]:
        """Adds a node with several outputs."""
        outputs = [ir.Value(name=self.name(op_type.lower())) for _ in range(count)]
        self.graph.append(ir.node(op_type, inputs, attrs, outputs=outputs, name=self.name(op_type)))
        return outputs

    def constant(self, array: Array, name: str = "constant") -> ir.Value:
        """An initialiser; equal small ones are one."""
        array = np.ascontiguousarray(array) if array.ndim else array
        key = (array.dtype.str, str(array.dtype), array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        found = self.weight(ir.tensor(array), name)
        if key is not None:
            self._constants[key] = found
        return found

    def weight(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        """An initialiser."""
        tensor.name = self.name(name)
        type, shape = ir.TensorType(tensor.dtype), ir.Shape(shape_of(tensor))
        value = ir.Value(name=tensor.name, type=type, shape=shape, const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def ints(self, values: Sequence[int]) -> ir.Value:
        """A list of integers."""
        return self.constant(np.array(values, np.int64), "ints")

    def number(self, value: float, dtype: str) -> ir.Value:
        """A scalar."""
        return self.constant(np.array(value, numpy_dtype(dtype)), "number")


@dataclass(frozen=True)
class Writing:
    """One application that is being written: its operands, its attributes, the type of its result."""

    writer: NodeWriter
    xs: Sequence[OnnxTensor]
    attrs: Mapping[str, Any]
    type: TensorType

    @property
    def opset(self) -> int:
        return self.writer.opset

    @property
    def x(self) -> ir.Value:
        """The first operand."""
        return self.xs[0].value

    def op(self, op_type: str, *inputs: ir.Value | None, **attrs: Any) -> ir.Value:
        """Adds a node."""
        return self.writer.op(op_type, *inputs, **attrs)

    def on_all(self, op_type: str, **attrs: Any) -> ir.Value:
        """Adds a node that takes all operands."""
        return self.op(op_type, *(x.value for x in self.xs), **attrs)

    def as_list(self, x: OnnxTensor) -> ir.Value:
        """An operand that ONNX wants as a list, where an operator of the language takes any shape of as many
        elements, such as [c, 1, 1]."""
        return x.value if x.type.rank == 1 else self.op("Reshape", x.value, self.ints(-1))

    def renamed(self, onnx: str, **names: str) -> ir.Value:
        """Adds a node that takes all operands. ``names`` says which attribute of the application each of its is."""
        return self.on_all(onnx, **{theirs: self.attrs[ours] for theirs, ours in names.items()})

    def ints(self, *values: int) -> ir.Value:
        """A list of integers."""
        return self.writer.ints(values)

    def number(self, value: float) -> ir.Value:
        """A scalar of the result's element type."""
        return self.writer.number(value, self.type.dtype)

    def in_rows(self, write: Callable[[OnnxTensor, TensorType], ir.Value]) -> OnnxTensor:
        """The result of ``write``, which changes rows, on the first operand; and on the same operand where its first
        dimensions are not yet flattened."""
        x, wide = self.xs[0], None
        if x.wide is not None:
            type = replace(x.wide.type, shape=(*x.wide.type.shape[:-1], self.type.shape[-1]))
            wide = OnnxTensor(write(x.wide, type), type)
        return OnnxTensor(write(x, self.type), self.type, wide)


# ---- tables ----------------------------------------------------------------------------------------------

#: Reads a node: the graph's node of its output, or one for each output.
Read: TypeAlias = Callable[[Reading], "int | Sequence[int]"]
#: Writes an application.
Write: TypeAlias = Callable[[Writing], "ir.Value | OnnxTensor"]


@dataclass(frozen=True)
class OnnxRow:
    """An ONNX operator and its reader, or an operator of the language and its writer, or both."""

    onnx: str = ""
    read: Read | None = None
    op: str = ""
    write: Write | None = None


def same(onnx: str, op: str, **floats: float) -> OnnxRow:
    """An operator that both sides have, with the same operands and attributes: ``floats``, with ONNX's defaults."""
    return OnnxRow(
        onnx,
        lambda r: r.op(op, *r.xs(), **{name: r.number_attr(name, value) for name, value in floats.items()}),
        op,
        lambda w: w.renamed(onnx, **{name: name for name in floats}),
    )


def renamed(onnx: str, **names: str) -> Write:
    """Writes an application as ``onnx`` on the same operands, whose attributes are ``names`` of the language's."""
    return lambda w: w.renamed(onnx, **names)
