"""A plain form of tensor graphs in which two independent descriptions of one model can be compared.

A graph becomes a list of steps, from our own `Graph` or from TASO's text form. Concatenations of
concatenations are made flat and weights lose their names; what is left is compared exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tensat_dl.core.graph import Graph, Node

Shape = tuple[int, ...]

#: The attributes that tell applications of one operator apart. Those of other operators follow from shapes.
ATTRIBUTES = {
    "conv2d": ("stride", "pads", "dilation", "act"),
    "poolmax": ("kernel", "stride", "pads", "act"),
    "poolavg": ("kernel", "stride", "pads", "include_pad", "act"),
    "matmul": ("act",),
    "concat": ("axis",),
    "slice": ("axis", "start", "stop"),
    "softmax": ("axis",),
    "transpose": ("perm",),
    "fill": ("value",),
}


@dataclass(frozen=True)
class Step:
    """One operator applied to earlier steps."""

    op: str
    inputs: tuple[int, ...]
    attrs: tuple[object, ...]
    shape: Shape


def from_graph(graph: Graph) -> list[Step]:
    """The steps of a graph whose nodes have one output each."""

    def step(node: Node) -> Step:
        attrs = tuple(node.attr(name) for name in ATTRIBUTES.get(node.op, ()))
        return Step(node.op, node.inputs, attrs, node.type.shape)

    return [step(node) for node in graph.nodes]


# ---- TASO's text form ------------------------------------------------------------------------------------

#: The operators of the published models, by TASO's code. A pool's code is also one of its parameters.
_TASO = {
    0: "input",
    1: "weight",
    3: "conv2d",
    4: "dropout",
    6: "poolmax",
    7: "poolavg",
    8: "relu",
    11: "batchnorm",
    12: "concat",
    14: "reshape",
    15: "transpose",
    16: "ewadd",
    18: "matmul",
}
_ACTIVATIONS = ("none", "sigmoid", "relu", "tanh")
_SAME, _VALID = 0, 1


def from_taso(path: Path) -> list[Step]:
    """The steps of a model in TASO's text form: id, operator, inputs, parameters, on four lines."""
    lines = path.read_text().splitlines()
    steps: list[Step] = []
    where: dict[str, int] = {}
    for at in range(0, len(lines), 4):
        name, code, inputs, parameters = lines[at : at + 4]
        op = _TASO[int(code)]
        numbers = tuple(map(int, parameters.split(",")))
        if op in ("input", "weight"):
            steps.append(Step(op, (), (), numbers))
        else:
            # An input is "node:output", and every operator here has one output.
            operands = tuple(where[operand.removesuffix(":0")] for operand in inputs.split(","))
            steps.append(_taso_step(op, operands, [steps[i].shape for i in operands], numbers))
        where[name] = len(steps) - 1
    return steps


def _taso_step(op: str, operands: tuple[int, ...], shapes: Sequence[Shape], numbers: tuple[int, ...]) -> Step:
    """One node; ``numbers`` are its parameters. Those that repeat an input's shape must agree with it."""
    x = shapes[0]
    match op:
        case "conv2d":
            w = shapes[1]
            assert numbers[:8] == (*x, *w)
            stride, mode, act = numbers[8:10], numbers[10], numbers[11]
            pads = _pads(x[2:], w[2:], stride, mode)
            shape = (x[0], w[0], *_windows(x[2:], w[2:], stride, mode))
            return Step(op, operands, (stride, pads, (1, 1), _ACTIVATIONS[act]), shape)
        case "poolmax" | "poolavg":
            assert numbers[:4] == x
            assert _TASO[numbers[4]] == op
            kernel, stride, mode, act = numbers[5:7], numbers[7:9], numbers[9], numbers[10]
            details: tuple[object, ...] = (kernel, stride, _pads(x[2:], kernel, stride, mode))
            if op == "poolavg":
                details = (*details, False)  # TASO's mean leaves out the padding
            shape = (*x[:2], *_windows(x[2:], kernel, stride, mode))
            # The second operand is a placeholder for a weight.
            return Step(op, operands[:1], (*details, _ACTIVATIONS[act]), shape)
        case "matmul":
            return Step(op, operands, (_ACTIVATIONS[numbers[0]],), (x[0], shapes[1][1]))
        case "concat":
            (axis,) = numbers
            shape = (*x[:axis], sum(s[axis] for s in shapes), *x[axis + 1 :])
            return Step(op, operands, (axis,), shape)
        case "reshape":
            return Step(op, operands, (), numbers)
        case "transpose":
            perm = numbers[1 : 1 + numbers[0]]
            return Step(op, operands, (perm,), tuple(x[i] for i in perm))
        case "relu" | "dropout" | "batchnorm" | "ewadd":
            assert numbers == x
            return Step(op, operands, (), x)
    raise AssertionError(op)


def _windows(size: Shape, kernel: Shape, stride: Shape, mode: int) -> Shape:
    """How many windows fit: with `same`, one for every stride begun."""
    if mode == _SAME:
        return tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
    return tuple((n - k) // s + 1 for n, k, s in zip(size, kernel, stride, strict=True))


def _pads(size: Shape, kernel: Shape, stride: Shape, mode: int) -> Shape:
    """[top, left, bottom, right], where an odd row or column of padding comes last."""
    if mode == _VALID:
        return (0, 0, 0, 0)
    windows = _windows(size, kernel, stride, mode)
    total = [max((m - 1) * s + k - n, 0) for n, k, s, m in zip(size, kernel, stride, windows, strict=True)]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)


# ---- comparing -------------------------------------------------------------------------------------------


def flatten(steps: Sequence[Step]) -> list[Step]:
    """The same steps, each concat that only a concat along the same axis reads replaced by its operands."""
    users = Counter(j for step in steps for j in step.inputs)
    flat: list[Step] = []
    for step in steps:
        operands: list[int] = []
        for j in step.inputs:
            inner = flat[j]
            nested = step.op == inner.op == "concat" and step.attrs == inner.attrs and users[j] == 1
            operands += inner.inputs if nested else [j]
        flat.append(replace(step, inputs=tuple(operands)))
    return flat


def live(steps: Sequence[Step], outputs: Sequence[int]) -> list[int]:
    """The indices of what the outputs need."""
    needed = set(outputs)
    for i in range(len(steps) - 1, -1, -1):
        if i in needed:
            needed.update(steps[i].inputs)
    return sorted(needed)


def results(steps: Sequence[Step]) -> list[int]:
    """The indices of computed steps that no step reads."""
    read = {j for step in steps for j in step.inputs}
    return [i for i, step in enumerate(steps) if step.inputs and i not in read]


def summary(steps: Sequence[Step], outputs: Sequence[int]) -> Counter[tuple[object, ...]]:
    """How often each operator is applied with the same attributes to the same shapes."""
    flat = flatten(steps)
    return Counter(
        (flat[i].op, flat[i].attrs, tuple(flat[j].shape for j in flat[i].inputs), flat[i].shape)
        for i in live(flat, outputs)
    )


def same_formulas(a: tuple[Sequence[Step], Sequence[int]], b: tuple[Sequence[Step], Sequence[int]]) -> bool:
    """Whether two graphs, each given with its outputs, compute the same formulas equally often.

    A step's formula is its operator, attributes and operands' formulas, that of a weight its shape.
    """
    known: dict[tuple[object, ...], int] = {}
    return _numbered(flatten(a[0]), a[1], known) == _numbered(flatten(b[0]), b[1], known)


def _numbered(
    steps: Sequence[Step], outputs: Sequence[int], known: dict[tuple[object, ...], int]
) -> Counter[int]:
    number: dict[int, int] = {}
    for i in live(steps, outputs):
        key = (steps[i].op, steps[i].attrs, steps[i].shape, tuple(number[j] for j in steps[i].inputs))
        number[i] = known.setdefault(key, len(known))
    return Counter(number.values())
