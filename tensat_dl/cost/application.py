"""Operator applications to measure: as graphs, and in files that may go to another machine.

A file is a JSON list. An operator is its signature's text; a composition also has its definition, since the machine
that measures may not have its declaration:

    ["relu(f32[64]) -> f32[64] @ h100",
     {"signature": "silu#5b1c9a02(f32[64]) -> f32[64] @ h100",
      "definition": [{"node": "sigmoid(f32[64]) -> f32[64] @ h100", "inputs": [0]},
                     {"node": "ewmul(f32[64], f32[64]) -> f32[64] @ h100", "inputs": [0, 1]}]}]

``inputs`` count the composition's operands and then the nodes; the last node is the result.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensat_dl.core.graph import AttrValue, Graph, GraphBuilder, Node, TensorType, fill_attrs, leaf_attrs
from tensat_dl.cost.signature import Signature, SignatureError, parse
from tensat_dl.ops.table import OpTable


def applied(signature: Signature) -> Graph:
    """The graph of one operator on inputs x0, x1, .."""
    builder = GraphBuilder("application")
    operands = [_input(builder, i, type) for i, type in enumerate(signature.inputs)]
    return builder.finish([("y", builder.add(signature.op, operands, signature.attrs, signature.outputs))])


def definition(ops: OpTable, signature: Signature) -> Graph | None:
    """The definition of a composition on inputs x0, x1, .., as a graph without compositions; None for another
    operator."""
    if ops[signature.op].composition is None:
        return None
    builder = GraphBuilder("composition")
    inputs = [_input(builder, i, type) for i, type in enumerate(signature.inputs)]
    composed = {decl.name for decl in ops.values() if decl.composition is not None}
    result = expand(builder, ops, signature.op, inputs, dict(signature.attrs), composed)
    graph = builder.finish([("y", result)])
    # In a signature, and so in a file, an operator's attributes are sorted by name.
    nodes = (n if n.op == "input" else replace(n, attrs=tuple(sorted(n.attrs))) for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def expand(
    builder: GraphBuilder,
    ops: OpTable,
    op: str,
    operands: Sequence[int],
    attrs: Mapping[str, AttrValue],
    composed: Container[str],
) -> int:
    """Adds an application to a graph, and a ``composed`` operator as the operators of its definition. Numbers in the
    definition are `fill` nodes."""
    from tensat_dl.ops.compositions import compose
    from tensat_dl.ops.typing import infer

    def type_of(i: int) -> TensorType:
        return builder.nodes[i].type

    def scalar(value: float, like: int) -> int:
        type = TensorType(type_of(like).dtype, ())
        return builder.add("fill", (), fill_attrs(value, type), (type,))

    def apply(op: str, operands: Sequence[int], attrs: Mapping[str, AttrValue]) -> int:
        if op in composed:
            return compose(ops[op], ops, operands, attrs, type_of, scalar, apply)
        types = infer(ops, op, [type_of(i) for i in operands], attrs).concrete()
        return builder.add(op, operands, ops[op].ordered(attrs), types)

    return apply(op, operands, attrs)


def _input(builder: GraphBuilder, i: int, type: TensorType) -> int:
    return builder.add("input", (), leaf_attrs(f"x{i}", type), (type,))


@dataclass(frozen=True)
class OpApplication:
    """An application to measure; ``definition`` is None unless its operator is a composition."""

    signature: Signature
    definition: Graph | None = None


def application(ops: OpTable, signature: Signature) -> OpApplication:
    """A signature with the definition of its operator."""
    return OpApplication(signature, definition(ops, signature))


def dumps(applications: Iterable[OpApplication]) -> str:
    """The text of a file."""
    return json.dumps([to_data(j) for j in applications], indent=1) + "\n"


def loads(text: str, name: str) -> tuple[OpApplication, ...]:
    """The applications in the text of the file ``name``. Raises `SignatureError`."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise SignatureError(f"{name}: nested too deeply for a list of signatures") from None
    except ValueError as e:
        raise SignatureError(f"{name}: not JSON ({e})") from None
    if not isinstance(data, list):
        raise SignatureError(f"{name}: not a list of signatures, as `tensat-dl run --signatures` writes it")
    try:
        return tuple(from_data(item) for item in data)
    except SignatureError as e:
        raise SignatureError(f"{name}: {e}") from None


def to_data(application: OpApplication) -> Any:
    """An application as plain data."""
    if application.definition is None:
        return application.signature.text
    nodes = application.definition.nodes
    device = application.signature.device
    parts = [
        {
            "node": Signature(n.op, n.attrs, tuple(nodes[i].type for i in n.inputs), n.types, device).text,
            "inputs": list(n.inputs),
        }
        for n in nodes[len(application.signature.inputs) :]
    ]
    return {"signature": application.signature.text, "definition": parts}


def from_data(data: Any) -> OpApplication:
    """The application of plain data. Raises `SignatureError`."""
    if isinstance(data, str):
        return OpApplication(parse(data))
    if not isinstance(data, dict) or not isinstance(data.get("signature"), str):
        raise SignatureError(f"expected a signature, not {json.dumps(data)[:60]}")
    signature = parse(data["signature"])
    operands = len(signature.inputs)
    nodes = list(applied(signature).nodes[:operands])
    parts = data.get("definition") or [{}]
    if not isinstance(parts, list):
        raise SignatureError(f"the definition of `{signature.op}` is no list")
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("node"), str):
            raise SignatureError(
                f"the definition of `{signature.op}` has no `node` in {json.dumps(part)[:60]}"
            )
        made = parse(part["node"])
        inputs = part.get("inputs")
        if (
            not isinstance(inputs, list)
            or not all(type(i) is int and 0 <= i < len(nodes) for i in inputs)
            or tuple(nodes[i].types[0] for i in inputs) != made.inputs
        ):
            raise SignatureError(f"in the definition of `{signature.op}`, `{made.op}` has other inputs")
        nodes.append(Node(made.op, tuple(inputs), made.attrs, made.outputs))
    if nodes[-1].types != signature.outputs:
        raise SignatureError(f"the definition of `{signature.op}` has another type than the signature")
    return OpApplication(signature, Graph("composition", tuple(nodes), (("y", len(nodes) - 1),)))
