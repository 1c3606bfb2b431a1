"""Large matrices that products take without anyone holding them as a whole.

A product draws the numbers of some rows of a weight, multiplies by them and drops them; and it multiplies by matrices
that stand side by side one by one. A processor draws or multiplies in less time than a system takes to give a process
memory for such a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tensat_dl.beside import both
from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in
from tensat_dl.ops.semantics.movement import concat, transpose
from tensat_dl.ops.semantics.reductions import matmul, product
from tensat_dl.verify.weights import BLOCK, Distribution, choose_distributions, draw, draw_block, drawn_by

#: Weights of so many numbers are drawn late.
LATE = 1 << 24
#: Concatenations of so many numbers are put together late.
LATE_CONCAT = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class LateWeight:
    """A matrix with the numbers that `draw` draws for it, or that matrix ``turned``."""

    name: str
    type: TensorType
    distribution: Distribution
    seed: int
    turned: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape[::-1] if self.turned else self.type.shape

    @property
    def nbytes(self) -> int:
        """What an array of these numbers takes."""
        return 8 * self.type.size

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        drawn = draw(self.name, self.type, self.distribution, self.seed)
        return drawn.T if self.turned else drawn

    def multiplied(self, x: Array) -> Array:
        """x [.., k] times the matrix [k, n]. Two threads compute with half of the rows each: the same numbers on any
        number of cores."""
        rows = self.type.shape[0]
        # turned, rows are columns of the product; else the halves are to be added up
        out = np.zeros((1 if self.turned else 2, *x.shape[:-1], self.shape[1]))

        def compute(part: int) -> None:
            for first, some in self._rows(part * (rows // 2), rows if part else rows // 2):
                these = slice(first, first + len(some))
                if self.turned:
                    out[0][..., these] = x @ some.T
                else:
                    out[part] += x[..., these] @ some

        both(lambda: compute(0), lambda: compute(1))
        return np.asarray(out[0] if self.turned else out[0] + out[1])

    def _rows(self, first: int, last: int) -> Iterator[tuple[int, Array]]:
        """Rows of the matrix that is not turned, as many as each block completes, and the number of the first. All
        are in the same memory."""
        width = self.type.shape[1]
        key = drawn_by(self.name, self.type, self.seed)
        room = np.empty(width + BLOCK)
        start = first * width // BLOCK * BLOCK
        begin, end = first * width - start, 0  # of what is drawn and not yet given, in the room
        for at in range(start, last * width, BLOCK):
            block = room[end : end + min(BLOCK, self.type.size - at)]
            draw_block(block, at, key, self.distribution)
            drawn = room[begin : end + block.size]
            count = min(drawn.size // width, last - first)
            yield first, drawn[: count * width].reshape(count, width)
            first += count
            rest = drawn[count * width :]
            begin, end = 0, rest.size
            room[:end] = rest


@dataclass(frozen=True, slots=True, eq=False)
class LateConcat:
    """Matrices side by side."""

    parts: tuple[Array | LateWeight | LateConcat, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return np.concatenate([np.asarray(part) for part in self.parts], axis=1)

    def multiplied(self, x: Array) -> Array:
        """x [.., k] times the matrix [k, n]."""
        out, begin = np.empty((*x.shape[:-1], self.shape[1])), 0
        for part in self.parts:
            end = begin + part.shape[1]
            out[..., begin:end] = _product(x, part)
            begin = end
        return out


Late: TypeAlias = LateWeight | LateConcat
LATE_TYPES = (LateWeight, LateConcat)


def late_weights(graph: Graph, seed: int) -> dict[str, LateWeight]:
    """By name, the large weights of a graph that one product takes, as its second operand or transposed as that, and
    nothing else."""
    users: list[list[tuple[int, int]]] = [[] for _ in graph.nodes]
    for i, node in enumerate(graph.nodes):
        for position, j in enumerate(node.inputs):
            users[j].append((i, position))
    outputs = {i for _, i in graph.outputs}

    def multiplied(i: int) -> bool:
        if i in outputs or len(users[i]) != 1:
            return False
        ((user, position),) = users[i]
        op = graph.nodes[user].op
        return (op, position) == ("matmul", 1) or (op == "transpose" and multiplied(user))

    distributions = choose_distributions(graph)
    found: dict[str, LateWeight] = {}
    for i in graph.weights:
        type_, distribution = graph.nodes[i].type, distributions[i]
        real = computed_in(type_.dtype) is np.float64 and not distribution.positive
        if type_.size >= LATE and type_.rank == 2 and real and multiplied(i):
            name = str(graph.nodes[i].attr("name"))
            found[name] = LateWeight(name, type_, distribution, seed)
    return found


def taking_late(semantics: Mapping[str, Semantics]) -> dict[str, Semantics]:
    """Operators that take late matrices, too: a product multiplies by them, most others get the whole matrix."""

    def taking(function: Semantics) -> Semantics:
        @wraps(function)
        def call(*operands: Any, **attrs: Any) -> Any:
            if function is transpose and isinstance(operands[0], LateWeight):
                turned = tuple(attrs["perm"]) == (1, 0)
                return replace(operands[0], turned=operands[0].turned ^ turned)
            if function is concat and _wide(operands, attrs["axis"]):
                return LateConcat(operands)
            if function is matmul and isinstance(operands[1], LATE_TYPES):
                x, y, *bias = operands
                return matmul(np.asarray(x), y, *bias, product=_product, **attrs)
            return function(*(np.asarray(o) if isinstance(o, LATE_TYPES) else o for o in operands), **attrs)

        return call

    return {op: taking(function) for op, function in semantics.items()}


def _wide(operands: Sequence[Array | Late], axis: int) -> bool:
    """Whether operands make a large matrix side by side."""
    real = all(isinstance(o, LATE_TYPES) or (o.ndim == 2 and o.dtype == np.float64) for o in operands)
    return real and axis == 1 and sum(prod(o.shape) for o in operands) >= LATE_CONCAT


def _product(x: Array, y: Array | Late) -> Array:
    return y.multiplied(x) if isinstance(y, LATE_TYPES) else product(x, y)
