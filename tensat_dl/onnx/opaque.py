"""Nodes that pass through as they are.

For the language they are opaque operators, whose attribute ``node`` says which node of the model is meant. Constants
that such a node takes stay with it; its other operands, and what its subgraphs take from around them, are tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import onnx_ir as ir

from tensat_dl.core.graph import Attrs, AttrValue
from tensat_dl.core.types import TensorType
from tensat_dl.onnx.facts import IMPURE
from tensat_dl.onnx.subgraphs import captured, subgraphs


@dataclass
class Originals:
    """The nodes behind opaque operators, and the operators. ``constant`` says which values are known."""

    constant: Callable[[ir.Value], bool]
    nodes: dict[str, ir.Node] = field(default_factory=dict)  #: by the attribute ``node``
    declarations: dict[str, str] = field(default_factory=dict)  #: operator -> its declaration
    _keys: dict[bytes, str] = field(default_factory=dict)

    def add(self, node: ir.Node, arity: int, types: tuple[TensorType, ...]) -> tuple[str, Attrs]:
        """The operator and the attributes that stand for a node with so many operands. Nodes that compute the same
        of their operands have the same."""
        key = self._key(node)
        if len(types) == 1:
            attrs: dict[str, AttrValue] = {"node": key, "dtype": types[0].dtype, "shape": types[0].shape}
        else:
            attrs = {"node": key}
            for k, t in enumerate(types):
                attrs |= {f"dtype_{k}": t.dtype, f"shape_{k}": t.shape}
        name = _name(node, arity, len(types))
        self.declarations.setdefault(name, _declaration(name, node, arity, len(types)))
        return name, tuple(attrs.items())

    def _key(self, node: ir.Node) -> str:
        name = node.name or next(str(v.name) for v in node.outputs if v.name)
        while name in self.nodes:
            name += "'"
        if not _impure(node):
            name = self._keys.setdefault(_content(node, self.constant), name)
        self.nodes.setdefault(name, node)
        return name


def _impure(node: ir.Node) -> bool:
    """Whether a node may compute other values each time. Every such node is different from every other."""
    inside = (n for graph in subgraphs(node) for n in graph)
    return node.op_type in IMPURE or any(_impure(n) for n in inside)


def operands(node: ir.Node, constant: Callable[[ir.Value], bool]) -> list[ir.Value]:
    """What a node takes that is not constant: its inputs, then what its subgraphs take from around them."""
    inputs = [v for v in node.inputs if v is not None]
    return [v for v in (*inputs, *dict.fromkeys(captured(node))) if not constant(v)]


def _content(node: ir.Node, constant: Callable[[ir.Value], bool]) -> bytes:
    """What tells a node from others, but for its operands' names: all that it says, and which constants it takes."""
    proto = ir.to_proto(node)
    proto.name = ""
    proto.doc_string = ""
    del proto.metadata_props[:]
    for i, value in enumerate(node.inputs):
        if value is not None and not constant(value):
            proto.input[i] = "."
    for i, name in enumerate(proto.output):
        proto.output[i] = "." if name else ""
    return bytes(proto.SerializeToString(deterministic=True))


def _name(node: ir.Node, arity: int, outputs: int) -> str:
    """As in ``Resize``, ``LSTM_3`` with three outputs, ``com_microsoft_FusedConv`` of another domain."""
    name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}_{node.op_type}"
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    name = name if name[:1].isalpha() else f"op_{name}"
    name = name if any(c.isupper() for c in name) else f"{name}_onnx"
    return name + (f"_{outputs}" if outputs > 1 else "") + ("_constant" if arity == 0 else "")


def _declaration(name: str, node: ir.Node, arity: int, outputs: int) -> str:
    of = "" if node.domain in ("", "ai.onnx") else f" of {node.domain}"
    tensors = "xs: tensor.." if arity else ""
    lines = [f"/// {node.op_type}{of}, as `node` of the model has it."]
    if outputs == 1:
        lines.append(f"opaque op {name}({tensors}; node: string, dtype: dtype, shape: ints) {{")
        lines += ["  shape shape", "  dtype dtype", "}"]
        return "\n".join(lines)
    attrs = ", ".join(f"dtype_{k}: dtype, shape_{k}: ints" for k in range(outputs))
    names = ", ".join(f"y{k}" for k in range(outputs))
    lines.append(f"opaque op {name}({tensors}; node: string, {attrs}) -> ({names}) {{")
    for k in range(outputs):
        lines += [f"  shape y{k} = shape_{k}", f"  dtype y{k} = dtype_{k}"]
    return "\n".join([*lines, "}"])
