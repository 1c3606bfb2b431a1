"""Files of signatures to be measured, possibly on another machine.

A JSON list. An operator is its signature's text; a composition also has its definition, since the machine that
measures may not have its declaration:

    ["relu(f32[64]) -> f32[64] @ h100",
     {"signature": "silu(f32[64]) -> f32[64] @ h100",
      "definition": [{"node": "sigmoid(f32[64]) -> f32[64] @ h100", "inputs": [0]},
                     {"node": "ewmul(f32[64], f32[64]) -> f32[64] @ h100", "inputs": [0, 1]}]}]

``inputs`` count the composition's operands and then the nodes; the last node is the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.graph import Graph, Node
from tensat_dl.cost.application import applied, definition
from tensat_dl.cost.signature import Signature, SignatureError, parse
from tensat_dl.ops.table import OpTable


@dataclass(frozen=True)
class ProfileJob:
    """One application to be measured; ``definition`` is a composition's."""

    signature: Signature
    definition: Graph | None = None


def job(ops: OpTable, signature: Signature) -> ProfileJob:
    """A signature with the definition of its operator."""
    return ProfileJob(signature, definition(ops, signature))


def dumps(jobs: Iterable[ProfileJob]) -> str:
    """The text of a file."""
    return json.dumps([to_data(j) for j in jobs], indent=1) + "\n"


def loads(text: str, name: str) -> tuple[ProfileJob, ...]:
    """The jobs in the text of the file ``name``. Raises `SignatureError`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise SignatureError(f"{name}: not JSON ({e})") from None
    if not isinstance(data, list):
        raise SignatureError(f"{name}: not a list of signatures, as `tensat-dl run --signatures` writes it")
    try:
        return tuple(from_data(item) for item in data)
    except SignatureError as e:
        raise SignatureError(f"{name}: {e}") from None


def to_data(job: ProfileJob) -> Any:
    """A job as plain data."""
    if job.definition is None:
        return job.signature.text
    nodes = job.definition.nodes
    device = job.signature.device
    parts = [
        {
            "node": Signature(n.op, n.attrs, tuple(nodes[i].type for i in n.inputs), n.types, device).text,
            "inputs": list(n.inputs),
        }
        for n in nodes[len(job.signature.inputs) :]
    ]
    return {"signature": job.signature.text, "definition": parts}


def from_data(data: Any) -> ProfileJob:
    """The job of plain data. Raises `SignatureError`."""
    if isinstance(data, str):
        return ProfileJob(parse(data))
    if not isinstance(data, dict) or not isinstance(data.get("signature"), str):
        raise SignatureError(f"expected a signature, not {json.dumps(data)[:60]}")
    signature = parse(data["signature"])
    operands = len(signature.inputs)
    nodes = list(applied(signature).nodes[:operands])
    for part in data.get("definition") or [{}]:
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
    return ProfileJob(signature, Graph("composition", tuple(nodes), (("y", len(nodes) - 1),)))
