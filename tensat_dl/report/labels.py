"""How pictures call and colour nodes."""

from __future__ import annotations

from tensat_dl.core.graph import AttrValue, Node
from tensat_dl.core.types import TensorType
from tensat_dl.ops.traits import Family

#: Operator families and their colours, which are readable on light and dark grounds.
FAMILIES: dict[Family, str] = {
    "product": "#3b82f6",
    "elementwise": "#10b981",
    "normalisation": "#a855f7",
    "pooling": "#f59e0b",
    "movement": "#64748b",
    "leaf": "#94a3b8",
    "other": "#ec4899",
}


def shape(type: TensorType) -> str:
    """A shape as short as it gets: 64×1024."""
    return "×".join(map(str, type.shape)) or "scalar"


def shown_attrs(node: Node, place: bool = True) -> list[str]:
    """The attributes that distinguish a node from others of its operator, in few characters.

    Without ``place``, slices of one size are alike wherever they start.
    """
    given = dict(node.attrs)
    out = []
    if given.get("act", "none") != "none":
        out.append(f"+ {given['act']}")
    if "axis" in given:
        out.append(f"axis {given['axis']}")
    if node.op == "slice" and place:
        out.append(f"{given['start']}..{given['stop']}")
    if "kernel" in given:
        out.append(sizes(given["kernel"]))
    if "perm" in given:
        out.append(f"({sizes(given['perm'], ' ')})")
    if given.get("stride", (1, 1)) not in ((1, 1), 1):
        out.append(f"/{sizes(given['stride'])}")
    return out


def sizes(value: AttrValue, between: str = "×") -> str:
    return between.join(map(str, value)) if isinstance(value, tuple) else str(value)


def attributes(node: Node) -> list[tuple[str, str]]:
    """All attributes but the name, for the details of a node."""
    return [
        (k, f"[{sizes(v, ', ')}]" if isinstance(v, tuple) else str(v)) for k, v in node.attrs if k != "name"
    ]
