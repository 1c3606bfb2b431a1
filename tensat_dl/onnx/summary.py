"""What is said of a model: how much of it was understood, and what stood in the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.reading import opset

#: How many operators are listed.
SHOWN = 6


def opaque_line(imported: Imported) -> str:
    """As in ``12 nodes, 1 of them opaque (8%): Resize``, with the reason where the operator as such is known, and the
    operator set of the file where that was too old."""
    if not imported.nodes:
        return "no nodes"
    text = f"{imported.nodes} nodes"
    if imported.older:
        text += f", converted from opset {imported.older} to {opset(imported.model)}"
    if not imported.opaque:
        return f"{text}, none of them opaque"
    named: Counter[str] = Counter()
    for (op, reason), count in imported.unmapped.items():
        named[op if reason == "no such operator" else f"{op} ({reason})"] += count
    items = [f"{name} ×{count}" for name, count in sorted(named.items(), key=lambda n: (-n[1], n[0]))]
    more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    share = imported.opaque / imported.nodes
    return f"{text}, {imported.opaque} of them opaque ({share:.0%}): {', '.join(items[:SHOWN])}{more}"


def model_to_json(imported: Imported) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "nodes": imported.nodes,
        "opaque": imported.opaque,
        "dims": dict(imported.dims),
        "opset": opset(imported.model),
        "converted_from": imported.older or None,
        "reasons": [
            {"operator": op, "reason": reason, "count": count}
            for (op, reason), count in imported.unmapped.items()
        ],
    }
