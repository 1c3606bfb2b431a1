"""Shapes at other sizes of a model's open dimensions.

The shapes of a graph are known at one size of each open dimension. The model is examined with other sizes, one at a
time. A shape that differs there can't be written as a constant: a reshape looks its dimensions up.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

from tensat_dl.core.graph import Attrs, AttrValue, Graph, TensorType
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import Absent

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OfOperand:
    """A dimension that is the operand's dimension ``axis``."""

    axis: int


@dataclass(frozen=True, slots=True)
class OfInput:
    """A dimension that is dimension ``axis`` of the graph's input at a position."""

    position: int
    axis: int


#: A dimension that is asked for: a number, that of the operand at the same place, what is left, another of the
#: operand's, or one of an input. (0 and -1 are ONNX's own notation.)
Asked = int | OfOperand | OfInput
SAME, REST = 0, -1
#: So many combinations of attributes are tried at other sizes.
MOST_TRIED = 64
#: The shapes that reshapes of a model make elsewhere, by those of operand and result here, and the operand's there.
Reshapes = Mapping[tuple[Shape, Shape, Shape], Shape]


@dataclass(frozen=True, slots=True)
class OpenAttributes:
    """The attributes of a model that has other ones at another size: the ``values`` there by operator, name and value
    here, and the ``integers`` in shapes and attributes there by the integers here."""

    values: Mapping[tuple[str, str, AttrValue], Sequence[AttrValue]]
    integers: Mapping[int, Sequence[int]]


class Elsewhere:
    """A model at another size of its open dimensions, where its values have the shapes ``known``. ``graph`` is the
    model's: other graphs reshape as it does, and have attributes as it has there, if it has ``opened`` ones."""

    def __init__(
        self,
        graph: Graph,
        ops: OpTable,
        known: Mapping[str, Shape],
        opened: OpenAttributes | None = None,
    ) -> None:
        self.known = known
        self.ops = ops
        self._opened = opened
        self._chosen: dict[tuple[Hashable, ...], Shape] = {}
        self._infer = Inference(ops)
        self._reshapes: dict[tuple[Shape, Shape, Shape], Shape] = {}
        #: Dimensions of the model's values, here and there.
        self._dims: set[tuple[int, int]] = set()
        for node in graph.nodes:
            if node.name in known and len(node.types) == 1 and len(known[node.name]) == len(node.type.shape):
                self._dims.update(zip(node.type.shape, known[node.name], strict=True))
        self.model = self.shapes(graph)
        for i, new in self.model.items():
            node = graph.nodes[i]
            if node.op == "reshape" and node.inputs[0] in self.model:
                old = graph.nodes[node.inputs[0]].type.shape
                self._reshapes[old, node.type.shape, self.model[node.inputs[0]]] = new

    def shapes(self, graph: Graph) -> dict[int, Shape]:
        """The shapes of the nodes, as far as they are known. A node with the name of a value has the value's
        shape."""
        found: dict[int, Shape] = {}
        for i, node in enumerate(graph.nodes):
            there = [found[j] for j in node.inputs if j in found]
            shape: Shape | None = None
            if node.name in self.known:
                shape = self.known[node.name]
            elif not node.inputs and len(node.types) == 1:
                shape = node.type.shape
            elif len(there) == len(node.inputs) and node.op not in (*graph.opaque, "proj"):
                here = [graph.nodes[j].type for j in node.inputs]
                shape = self.shape(node.op, node.attrs, here, node.type, there)
            if shape is not None:
                found[i] = shape
        return found

    def shape(
        self,
        op: str,
        attrs: Attrs,
        here: Sequence[TensorType],
        type: TensorType,
        there: Sequence[Shape],
        expected: Shape | None = None,
    ) -> Shape | None:
        """The shape of an application that has operands and result of these types here, and operands of those shapes
        there; None if it can't be applied there. It is the ``expected`` one if some attributes lead to that."""
        found = self.applied(op, attrs, here, type, there, expected)
        return None if found is None else found[1]

    def applied(
        self,
        op: str,
        attrs: Attrs,
        here: Sequence[TensorType],
        type: TensorType,
        there: Sequence[Shape],
        expected: Shape | None = None,
    ) -> tuple[Mapping[str, AttrValue], Shape] | None:
        """The same, and the attributes there. A slice up to the end stays one."""
        values = dict(attrs)
        key = (op, attrs, *here, *there)
        if self._opened is not None:
            expected = self._chosen.get(key) if expected is None else self._chosen.setdefault(key, expected)
        if op == "reshape":
            old, new = here[0].shape, type.shape
            fits = expected is not None and keeps_runs(old, there[0], new, expected)
            shape = expected if fits else reshaped(old, there[0], new, self._reshapes, self._dims)
            return None if shape is None else ({"shape": shape}, shape)
        if self._opened is None and [t.shape for t in here] == list(there):
            return values, type.shape
        axis = values.get("axis")
        if op == "slice" and isinstance(axis, int) and values["stop"] == here[0].shape[axis]:
            values["stop"] = there[0][axis]
        operands = [TensorType(t.dtype, x) for t, x in zip(here, there, strict=True)]
        first = None
        for tried in self._attributes(op, values):
            try:
                (found,) = self._infer(op, operands, tried).concrete()
            except (IllTyped, Absent, EvaluationError):
                continue
            if expected is None or found.shape == expected:
                return tried, found.shape
            first = first or (tried, found.shape)
        return first

    def _attributes(self, op: str, values: Mapping[str, AttrValue]) -> Iterator[dict[str, AttrValue]]:
        """The attributes that these may be there, the most likely ones first: as in the model, then as here."""
        choices = [self._choices(op, name, value) for name, value in values.items()]
        for chosen in islice(product(*choices), MOST_TRIED):
            yield dict(zip(values, chosen, strict=True))

    def _choices(self, op: str, name: str, value: AttrValue) -> list[AttrValue]:
        if self._opened is None:
            return [value]
        integers = self._opened.integers
        found = [*self._opened.values.get((op, name, value), ()), value]
        if isinstance(value, tuple):
            found += islice(product(*((v, *integers.get(v, ())) for v in value)), MOST_TRIED)
        elif isinstance(value, int) and not isinstance(value, bool):
            found += integers.get(value, ())
        return list(dict.fromkeys(found))


def reshaped(
    old: Shape, there: Shape, new: Shape, reshapes: Reshapes, dims: Container[tuple[int, int]] = ()
) -> Shape | None:
    """The shape that a reshape from ``old`` to ``new`` most likely makes of ``there``: the model's own one decides.

    If the model has none, both shapes are cut into the shortest runs of dimensions with equal products. In each run
    one dimension takes what is more: one that the model has in both sizes (``dims``: here and there), one as large as
    the dimension that has grown, or the first one, but none that is 1 if others are not.
    """
    if (old, new, there) in reshapes:
        return reshapes[old, new, there]
    found: list[int] = []
    for start, i, first, j in _runs(old, new):
        if old[start:i] == there[start:i]:
            found += new[first:j]
            continue
        total = prod(there[start:i])
        grown = {o for o, t in zip(old[start:i], there[start:i], strict=True) if o != t}
        places = []
        for k in range(first, j):
            size, rest = divmod(total, prod(new[first:k]) * prod(new[k + 1 : j]))
            if not rest:
                unlikely = new[k] == 1, (new[k], size) not in dims, new[k] not in grown
                places.append((unlikely, k, size))
        if not places:
            return None
        _, k, size = min(places)
        found += [*new[first:k], size, *new[k + 1 : j]]
    return tuple(found)


def _runs(old: Shape, new: Shape) -> Iterator[tuple[int, int, int, int]]:
    """The shortest runs of dimensions with equal products: where each starts and ends in both shapes."""
    i = j = 0
    while i < len(old) or j < len(new):
        start, first = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (a := prod(old[start:i])) != (b := prod(new[first:j])):
            i, j = (i + 1, j) if a < b else (i, j + 1)
        while i < len(old) and old[i] == 1:
            i += 1
        while j < len(new) and new[j] == 1:
            j += 1
        yield start, i, first, j


def keeps_runs(old: Shape, there: Shape, new: Shape, result: Shape) -> bool:
    """Whether a reshape from ``there`` to ``result`` keeps those dimensions together that one from ``old`` to ``new``
    does: [1, c, n] as [c, n] is not [2, c, n] as [c, 2 n], which takes elements from elsewhere."""
    cuts: dict[int, bool] = {}
    for i in range(len(old) + 1):
        for j in range(len(new) + 1):
            size = prod(old[:i])
            if size == prod(new[:j]):
                cuts[size] = cuts.get(size, False) or prod(there[:i]) == prod(result[:j])
    fits = all(cuts.values()) and prod(there) == prod(result)
    return fits and _irregular(there, result) <= _irregular(old, new)


def _irregular(old: Shape, new: Shape) -> int:
    """How many runs of a reshape make several dimensions of several: [2, 6] as [6, 2] does, [1, 6] as [6, 1] not."""
    if 0 in (*old, *new):
        return 0
    pairs = ((old[start:i], new[first:j]) for start, i, first, j in _runs(old, new))
    return sum(min(sum(n != 1 for n in run) for run in pair) > 1 for pair in pairs)


def asked_shape(
    old: Shape,
    new: Shape,
    elsewhere: Sequence[tuple[Shape, Shape]],
    inputs: Sequence[Sequence[Shape]] = (),
) -> list[Asked] | None:
    """The dimensions to ask of a reshape from ``old`` to ``new`` that is to fit other sizes, too: pairs of the same
    shapes there. ``inputs`` has the shapes of each of the graph's inputs, here and there: open dimensions are theirs.

    None if no reshape can ask for it, such as for two dimensions half as large as two of the operand's.
    """
    target: list[Asked] = list(new)
    sizes = [tuple(there[i] for _, there in elsewhere) for i in range(len(new))]  # of each dimension there
    varying = [i for i, n in enumerate(new) if any(size != n for size in sizes[i])]

    def follows(i: int, j: int) -> bool:
        return old[j] == new[i] and sizes[i] == tuple(before[j] for before, _ in elsewhere)

    def looked_up(i: int) -> Asked | None:
        operand = (OfOperand(j) for j in range(len(old)) if follows(i, j))
        of_input = (
            OfInput(k, axis)
            for k, (here, *there) in enumerate(inputs)
            for axis, n in enumerate(here)
            if n == new[i] and sizes[i] == tuple(shape[axis] for shape in there)
        )
        return next(operand, None) or next(of_input, None)

    for i in varying:
        if i < len(old) and follows(i, i):
            target[i] = SAME
    left = {i: looked_up(i) for i in varying if target[i] != SAME}
    unknown = [i for i, asked in left.items() if asked is None]
    if len(unknown) > 1:
        return None
    rest = next(iter(unknown or left), None)
    for i, asked in left.items():
        target[i] = REST if i == rest or asked is None else asked
    return target


def asked(
    here: Callable[[int], Shape],
    operand: int,
    result: int,
    inputs: Sequence[int],
    elsewhere: Sequence[Mapping[int, Shape]],
) -> list[Asked] | None:
    """The same for a reshape in a graph or an e-graph, whose tensors have numbers."""
    known = [there for there in elsewhere if all(k in there for k in (operand, result, *inputs))]
    pairs = [(there[operand], there[result]) for there in known]
    given = [[here(k), *(there[k] for there in known)] for k in inputs]
    return asked_shape(here(operand), here(result), pairs, given)


def stretched(old: Shape, new: Shape) -> Shape:
    """The dimensions that an expansion writes down: of those that are the operand's own, 1."""
    kept = (*[0] * (len(new) - len(old)), *old)
    return tuple(1 if n == k else n for n, k in zip(new, kept, strict=True))
