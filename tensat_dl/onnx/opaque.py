"""Nodes that pass through as they are.

In the language they are opaque operators. The attribute ``node`` identifies the node of the model. Constants that
such a node takes stay with it; its other operands, and what its subgraphs take from around them, are tensors.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field

import onnx_ir as ir

from tensat_dl.core.graph import Attrs, AttrValue, TensorType
from tensat_dl.onnx.facts import IMPURE
from tensat_dl.onnx.subgraphs import captured, subgraphs


@dataclass
class Originals:
    """The nodes behind opaque operators, and the operators. ``constants`` are the values that are known,
    ``impure`` the model's functions that may compute other values each time."""

    constants: Container[str]
    impure: Container[ir.OperatorIdentifier]
    nodes: dict[str, ir.Node] = field(default_factory=dict)  #: by the attribute ``node``
    declarations: dict[str, str] = field(default_factory=dict)  #: operator -> its declaration
    _keys: dict[bytes, str] = field(default_factory=dict)

    def add(self, node: ir.Node, arity: int, types: tuple[TensorType, ...]) -> tuple[str, Attrs]:
        """The operator and the attributes that stand for a node with so many operands. Nodes that compute the same
        of their operands have the same."""
        key = self._key(node)
        attrs: dict[str, AttrValue] = {"node": key}
        for suffix, t in zip(_suffixes(len(types)), types, strict=True):
            attrs |= {f"dtype{suffix}": t.dtype, f"shape{suffix}": t.shape}
        name = _name(node, arity, len(types))
        self.declarations.setdefault(name, _declaration(name, node, arity, len(types)))
        return name, tuple(attrs.items())

    def _key(self, node: ir.Node) -> str:
        name = node.name or next(str(v.name) for v in node.outputs if v.name)
        while name in self.nodes:
            name += "'"
        if not _is_impure(node, self.impure):
            name = self._keys.setdefault(_content(node, self.constants), name)
        self.nodes.setdefault(name, node)
        return name


def _is_impure(node: ir.Node, functions: Container[ir.OperatorIdentifier]) -> bool:
    """Whether a node may compute other values each time, as these functions do. Every such node is different from
    every other."""
    inside = (n for graph in subgraphs(node) for n in graph)
    own = node.op_type in IMPURE or node.op_identifier() in functions
    return own or any(_is_impure(n, functions) for n in inside)


def impure_functions(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """The model's own functions that may compute other values each time, by themselves or by functions in them."""
    found: set[ir.OperatorIdentifier] = set()
    while more := {
        k for k, f in model.functions.items() if k not in found and any(_is_impure(n, found) for n in f)
    }:
        found |= more
    return found


def operands(node: ir.Node, constants: Container[str]) -> list[ir.Value]:
    """The values that a node takes and that are not constant: its inputs, then those that its subgraphs capture."""
    inputs = [v for v in node.inputs if v is not None]
    return [v for v in (*inputs, *dict.fromkeys(captured(node))) if str(v.name) not in constants]


def _content(node: ir.Node, constants: Container[str]) -> bytes:
    """A text that identifies a node: its attributes and its constants, without the names of its operands."""
    proto = ir.serde.serialize_node(node)
    proto.name = ""
    proto.doc_string = ""
    del proto.metadata_props[:]
    for i, value in enumerate(node.inputs):
        if value is not None and str(value.name) not in constants:
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


def _suffixes(outputs: int) -> list[str]:
    """The suffix of each output's attributes."""
    return [""] if outputs == 1 else [f"_{k}" for k in range(outputs)]


def _declaration(name: str, node: ir.Node, arity: int, outputs: int) -> str:
    of = "" if node.domain in ("", "ai.onnx") else f" of {node.domain}"
    tensors = "xs: tensor.." if arity else ""
    suffixes = _suffixes(outputs)
    attrs = ", ".join(f"dtype{s}: dtype, shape{s}: ints" for s in suffixes)
    results = "" if outputs == 1 else f" -> ({', '.join(f'y{k}' for k in range(outputs))})"
    lines = [
        f"/// {node.op_type}{of}, as `node` of the model has it.",
        f"opaque op {name}({tensors}; node: string, {attrs}){results} {{",
    ]
    for k, s in enumerate(suffixes):
        result = "" if outputs == 1 else f"y{k} = "
        lines += [f"  shape {result}shape{s}", f"  dtype {result}dtype{s}"]
    return "\n".join([*lines, "}"])
