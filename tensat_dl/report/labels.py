"""How pictures call and colour nodes."""

from __future__ import annotations

from tensat_dl.core.graph import AttrValue, Node
from tensat_dl.core.types import TensorType

#: Operator families and their colours, which are readable on light and dark grounds.
FAMILIES = {
    "product": "#3b82f6",
    "elementwise": "#10b981",
    "normalisation": "#a855f7",
    "pooling": "#f59e0b",
    "movement": "#64748b",
    "leaf": "#94a3b8",
    "other": "#ec4899",
}

_FAMILY = {
    op: family
    for family, ops in {
        "product": "matmul conv2d",
        "elementwise": "ewadd ewsub ewmul ewdiv ewmax ewmin smul relu tanh sigmoid exp sqrt rsqrt erf gelu silu "
        "log floor power neg abs clip leakyrelu prelu elu hardsigmoid hardswish softplus mish gelu_tanh equal "
        "greater select one_hot cast dropout",
        "normalisation": "batchnorm layernorm instancenorm rmsnorm softmax",
        "pooling": "poolmax poolavg reduce_sum reduce_mean reduce_max",
        "movement": "transpose reshape concat slice expand pad gather resize upsample depth_to_space pixel_shuffle "
        "space_to_depth enlarge merge proj",
        "leaf": "input weight fill iota eye conv_identity conv_average",
    }.items()
    for op in ops.split()
}


def family(op: str) -> str:
    """The family of an operator; "other" for operators that the library does not declare."""
    return _FAMILY.get(op, "other")


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
