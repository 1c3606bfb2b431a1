"""Sizes of open dimensions at which a model may do something else than at those that it is read at.

A slice up to 512 leaves a short sequence as it is, a branch is taken for more than 1,000 rows, a size is rounded up
to a multiple of 8. So a model is also looked at on both sides of each whole number that it compares sizes with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import onnx_ir as ir

from tensat_dl.onnx.facts import ModelFacts
from tensat_dl.onnx.subgraphs import captured
from tensat_dl.onnx.typical_sizes import at_sizes
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.sizes.dim_sizes import DimSizes

#: Operators that compare sizes with numbers, or cut at a number; those that round to multiples of a number.
_COMPARE = frozenset(
    {"Min", "Max", "Clip", "Sub", "Abs", "Sign", "Relu", "Range", "Where"}
    | {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}
)
_ROUND = frozenset({"Mod", "Div", "Floor", "Ceil", "Round"})
#: Operators that compare the elements of a vector with one another; those that look up what may be a table.
_ORDER = frozenset({"ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "TopK"})
_LOOK_UP = frozenset({"Gather", "GatherND", "GatherElements"})
#: So many places at which a table changes are looked at from either end.
STEPS = 3
#: Numbers as large as this stand for the end of a dimension.
ENDLESS = 2**24
#: A dimension is once so many times as large as all numbers, and at least `LARGE`: what is compared may be a part of
#: a size, and numbers may be fractions.
FAR = 128
LARGE = 8192
#: At so many sizes of each dimension a model is looked at; at all of them, where rests of divisions are taken.
MOST = 32


@dataclass(frozen=True, slots=True)
class Turning:
    """The whole ``numbers`` that a model compares sizes with, and the ``divisors`` to whose multiples it rounds them;
    whether it compares sizes or rounds them ``at_all``, with numbers below 1 too; whether it compares ``several``
    sizes; and whether it takes ``rests`` of divisions."""

    numbers: tuple[int, ...] = ()
    divisors: tuple[int, ...] = ()
    at_all: bool = False
    several: bool = False
    rests: bool = False

    @classmethod
    def of(cls, model: ir.Model, facts: ModelFacts, others: Sequence[ModelFacts]) -> Turning:
        """Those of a model, of which there are facts at several sizes: these tell what depends on sizes."""
        numbers: set[int] = set()
        divisors: set[int] = set()
        at_all = several = rests = False
        for node in model.graph:
            names = [str(v.name) for v in (*node.inputs, *captured(node)) if v is not None]
            varying = [n for n in names if facts.differs(n, others)]
            whole = [n for name in names if name not in varying for n in _whole(facts.small(name))]
            resized = bool(names) and facts.shape_differs(names[0], others)
            if node.op_type in _COMPARE | _ROUND and varying:
                at_all = True
                rests = rests or node.op_type == "Mod"
                several = several or (node.op_type in _COMPARE and len(varying) > 1)
                (numbers if node.op_type in _COMPARE else divisors).update(whole)
            elif node.op_type in _ORDER and varying:
                at_all = several = True
                numbers.update(n for name in varying for n in _whole(facts.constant_part(name, others)))
            elif node.op_type in _LOOK_UP and names[0] not in varying and varying:
                at_all = True
                numbers.update(_steps(facts.constants.get(names[0]), node))
            elif node.op_type == "Slice" and resized:
                numbers.update(whole)
            elif node.op_type == "Squeeze" and resized and len(names) == 1 and not node.attributes:
                numbers.add(1)  # all dimensions of 1 are left out
            elif resized:
                divisors.update(_strides(node))
        divisors.discard(1)
        at_all = at_all or bool(numbers or divisors)
        return cls(tuple(sorted(numbers)), tuple(sorted(divisors)), at_all, several, rests)

    def sizes(self, bound: Mapping[str, int], said: Mapping[str, DimSizes]) -> list[dict[str, int]]:
        """The sizes to look at: of one dimension after the other; of all at once, as small and as large as they may
        be; and if several are compared, as large as one another and in the opposite order."""
        found = [
            at_sizes(bound, {name: n})
            for name, d in said.items()
            if not d.fixed
            for n in islice((n for n in self._around(bound[name], d) if n in d), MOST)
        ]
        if self.at_all and len(bound) > 1:
            ends = {
                name: (d.low, self._far(bound[name]) if d.high is None else d.high)
                for name, d in said.items()
            }
            found += [at_sizes(bound, {name: end[k] for name, end in ends.items()}) for k in (0, 1)]
        if self.several:
            sizes = sorted(bound.values())
            order = sorted(bound, key=lambda name: -bound[name])
            found += [dict.fromkeys(bound, n) for n in dict.fromkeys((sizes[0], sizes[-1]))]
            found.append(dict(zip(order, sizes, strict=True)))
        return [sizes for sizes in found if all(n in said[name] for name, n in sizes.items())]

    def _around(self, size: int, within: DimSizes) -> Iterator[int]:
        """Other sizes of a dimension: so large that what is compared may be a part of it; beyond each number, as seen
        from this size, and each number; multiples of each divisor, and one more, or all rests. 1 is not among
        them, of which more is true, unless sizes are compared with it."""
        tried = [self._far(size), 3] if self.at_all else []
        for n in self.numbers:
            tried += [n + 1, n] * (n >= size) + [n, n - 1] * (n <= size)
        for n in self.divisors:
            multiple = n * (size // n + 1)
            tried += (multiple, multiple + 1, n + 1)
            if self.rests:
                tried += range(size + 1, size + min(n, MOST) + 1)
        if self.rests and within.high is not None and within.high - within.low < MOST:
            tried = [*range(within.low, within.high + 1)]
        least = 1 if {1, 2}.intersection(self.numbers) else 2
        yield from (n for n in dict.fromkeys(tried) if least <= n and n != size)

    def _far(self, size: int) -> int:
        return max(LARGE, FAR * max((size, *self.numbers, *self.divisors)))


def _whole(array: Array | None) -> list[int]:
    """The magnitudes of a small constant that may be sizes."""
    few = [] if array is None or array.dtype.kind not in "iuf" else array.reshape(-1)[:FAR].tolist()
    return [int(abs(x)) for x in few if 1 <= abs(x) < ENDLESS]


def _steps(table: ir.TensorProtocol | None, node: ir.Node) -> list[int]:
    """The first and the last places along its axis at which a table is another than before."""
    if table is None or not table.shape:
        return []
    given = node.attributes.get("axis")
    axis = 0 if given is None else given.as_int()
    if not -len(table.shape) <= axis < len(table.shape):  # then the model does not run
        return []
    rows = np.moveaxis(table.numpy(), axis, 0)
    steps = 1 + np.flatnonzero((rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim))))
    return [*map(int, steps[:STEPS]), *map(int, steps[-STEPS:])]


def _strides(node: ir.Node) -> Sequence[int]:
    """The strides of a window that does not always fit, and is padded then."""
    ceil, auto, strides = (node.attributes.get(name) for name in ("ceil_mode", "auto_pad", "strides"))
    rounded = (ceil is not None and ceil.value) or (auto is not None and str(auto.value).startswith("SAME"))
    return strides.as_ints() if rounded and strides is not None else ()
