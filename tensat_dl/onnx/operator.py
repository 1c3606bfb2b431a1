"""What the operator tables are made of: a row for each ONNX operator, and what its functions work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from tensat_dl.core.graph import AttrValue, GraphBuilder
from tensat_dl.core.types import TensorType
from tensat_dl.onnx.facts import ModelFacts
from tensat_dl.onnx.numbers import meant, meant_f32
from tensat_dl.onnx.types import DTYPES, HANDLE, shape_of, tensor_type
from tensat_dl.ops.semantics.types import Array
from tensat_dl.ops.table import OpTable, coerce
from tensat_dl.ops.typing import IllTyped, defaults, infer
from tensat_dl.ops.values import Absent


class Unmapped(Exception):
    """The language has no operator for this use of an ONNX operator: it is opaque. The message says why."""


class Reading:
    """One ONNX node that is being read into a graph."""

    def __init__(self, node: ir.Node, context: Context) -> None:
        self.node = node
        self._context = context
        self.opset = context.opset

    # ---- what the node says ------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        if attr.is_ref():
            raise Unmapped("an attribute refers to a function's")
        return attr.value

    def number_attr(self, name: str, default: float) -> float:
        """The value of an attribute that is a float."""
        return meant_f32(self.attr(name, default))

    def has(self, i: int) -> bool:
        """Whether the optional input ``i`` is there."""
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def constant(self, i: int) -> Array:
        """The value of input ``i``. Raises `Unmapped` if it is not a small constant."""
        array = self._context.facts.small(self._name(i))
        if array is None:
            raise Unmapped(f"input {i} is not a constant")
        return array

    def number_of(self, i: int) -> float:
        """The one number that input ``i`` is. Raises `Unmapped` if it is not known, or not finite."""
        array = self.constant(i)
        if array.size != 1 or not isfinite(array.reshape(()).item()):
            raise Unmapped(f"input {i} is not one number")
        return meant(array.reshape(-1)[0])

    def ints(self, name: str, i: int | None = None) -> tuple[int, ...] | None:
        """A list that is an attribute in some versions of an operator and input ``i`` in others."""
        value = self.attr(name)
        if value is None and i is not None and self.has(i):
            value = self.constant(i).reshape(-1).tolist()
        return None if value is None else tuple(int(v) for v in value)

    def result(self, k: int = 0) -> TensorType:
        """The type of output ``k``, as ONNX infers it."""
        found = tensor_type(self._context.facts.types.get(str(self.node.outputs[k].name)))
        if found is None:
            raise Unmapped("the type of its result is not known")
        return found

    def used(self, k: int) -> bool:
        """Whether anything takes output ``k``."""
        if k >= len(self.node.outputs) or not self.node.outputs[k].name:
            return False
        out = self.node.outputs[k]
        return bool(out.uses()) or out.is_graph_output()

    def only_result(self) -> None:
        """Raises `Unmapped` if an output beyond the first is used."""
        if any(self.used(k) for k in range(1, len(self.node.outputs))):
            raise Unmapped("it has a second result")

    # ---- the graph ---------------------------------------------------------------------------------------

    def x(self, i: int = 0) -> int:
        """The graph's node for input ``i``."""
        found = self._context.operand(self._name(i))
        if found is None or (self.type(found) == HANDLE and self._context.is_handle(self._name(i))):
            raise Unmapped(f"the type of input {i} is not known")
        return found

    def type(self, node: int) -> TensorType:
        return self._context.builder.nodes[node].types[0]

    def op(self, op: str, *inputs: int, **attrs: AttrValue) -> int:
        """Adds an application. Raises `Unmapped` if it is not well-typed."""
        return apply(self._context.ops, self._context.builder, op, inputs, attrs)

    def is_known(self, i: int) -> bool:
        """Whether input ``i`` is a constant."""
        return self._name(i) in self._context.facts.constants

    def is_constant(self, node: int) -> bool:
        """Whether the graph's node is a constant."""
        return self._context.builder.nodes[node].op in ("weight", "fill", "iota")

    def scalars(self, *xs: int) -> list[int]:
        """``xs``, where constants of one element have rank 0 if that leaves what they broadcast to as it is."""
        rank = max((self.type(x).rank for x in xs if self.type(x).size > 1), default=0)
        return [self._scalar(x) if self.type(x).rank <= rank else x for x in xs]

    def _scalar(self, x: int) -> int:
        node = self._context.builder.nodes[x]
        if node.op != "fill" or node.type.rank == 0:
            return x
        value = node.attr("value")
        assert isinstance(value, float)
        return self.number(value, node.type.dtype)

    def number(self, value: float, dtype: str) -> int:
        """A scalar constant."""
        return self.op("fill", value=float(value), dtype=dtype, shape=())

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


@dataclass(frozen=True)
class Context:
    """A graph that is being read. ``operand`` gives the node of a value, ``is_handle`` whether that only stands for
    it."""

    facts: ModelFacts
    ops: OpTable
    builder: GraphBuilder
    opset: int
    operand: Callable[[str], int | None]
    is_handle: Callable[[str], bool]


def apply(
    ops: OpTable, builder: GraphBuilder, op: str, inputs: Sequence[int], attrs: Mapping[str, AttrValue]
) -> int:
    """Adds an application to a graph, with defaults. Raises `Unmapped` if it is not well-typed."""
    decl = ops[op]
    values = defaults(decl) | {a.name: coerce(a, attrs[a.name]) for a in decl.attrs if a.name in attrs}
    try:
        types = infer(ops, op, [builder.nodes[j].type for j in inputs], values).concrete()
    except (IllTyped, Absent) as e:
        raise Unmapped(f"{op} requires that {e}") from None
    return builder.add(op, inputs, tuple((a.name, values[a.name]) for a in decl.attrs), types)


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    """A value of the model that is being written, with its type in the graph.

    ``wide`` is the same value where its first dimensions are not yet flattened into one: ONNX multiplies [b, s, k] by
    [k, n] as it is. ``reduced`` says of what it is a reduction, by which operator and along which axes: ONNX reduces
    several at once.
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
        self._taken = names_in(graph)
        self._counts: dict[str, int] = {}
        self._constants: dict[tuple[Any, ...], ir.Value] = {}

    def op(self, op_type: str, *inputs: ir.Value | None, **attrs: Any) -> ir.Value:
        """Adds a node with one output."""
        (value,) = self.several(op_type, 1, *inputs, **attrs)
        return value

    def several(self, op_type: str, count: int, *inputs: ir.Value | None, **attrs: Any) -> Sequence[ir.Value]:
        """Adds a node with several outputs."""
        outputs = [ir.Value(name=self.name(f"{op_type.lower()}")) for _ in range(count)]
        given = ir.convenience.convert_attributes(attrs)
        node = ir.Node("", op_type, inputs, given, outputs=outputs, name=self.name(op_type))
        self.graph.append(node)
        return node.outputs

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
        name = self.name(name)
        tensor.name = name
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape_of(tensor)), const_value=tensor
        )
        self.graph.register_initializer(value)
        return value

    def ints(self, values: Sequence[int]) -> ir.Value:
        """A list of integers."""
        return self.constant(np.array(values, np.int64), "ints")

    def number(self, value: float, dtype: str) -> ir.Value:
        """A scalar."""
        return self.constant(np.array(value, numpy_dtype(dtype)), "number")

    def name(self, wanted: str) -> str:
        """A name that nothing has yet."""
        name = wanted
        while name in self._taken:
            self._counts[wanted] = self._counts.get(wanted, 0) + 1
            name = f"{wanted}_{self._counts[wanted]}"
        self._taken.add(name)
        return name


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type in which elements of a type are stored."""
    return np.dtype(next(d for d, name in DTYPES.items() if name == dtype).numpy())


def names_in(graph: ir.Graph) -> set[str]:
    """Every name of a value or node in a graph or within it."""
    found = {str(v.name) for v in (*graph.inputs, *graph.initializers.values())}
    for node in ir.traversal.RecursiveGraphIterator(graph):
        found.add(str(node.name))
        found.update(str(v.name) for v in (*node.outputs, *node.inputs) if v is not None)
    return found


#: Reads a node: the graph's node of its output, or one for each output.
Read: TypeAlias = Callable[[Reading], "int | Sequence[int]"]
#: Writes an application: operands, attributes, the type of the result.
Write: TypeAlias = Callable[
    [NodeWriter, Sequence[OnnxTensor], Mapping[str, Any], TensorType], "ir.Value | OnnxTensor"
]


@dataclass(frozen=True)
class OnnxRow:
    """An ONNX operator with how it is read, or an operator of the language with how it is written, or both."""

    onnx: str = ""
    read: Read | None = None
    op: str = ""
    write: Write | None = None


def same(onnx: str, op: str) -> OnnxRow:
    """An operator that both sides have, with the same operands and no attributes."""
    return OnnxRow(
        onnx,
        lambda r: r.op(op, *(r.x(i) for i in range(len(r.node.inputs)))),
        op,
        lambda w, xs, attrs, type: w.op(onnx, *(x.value for x in xs)),
    )


def retyped(x: OnnxTensor, shape: Sequence[int]) -> TensorType:
    return replace(x.type, shape=tuple(shape))
