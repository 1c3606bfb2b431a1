"""Matrix products of operands whose leading dimensions differ, as NumPy's ``@`` has them. `matmul` itself takes
operands of one rank with equal leading dimensions; reshapes and expansions around it do the rest."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tensat_dl.ops.values import Broadcast, broadcast

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """The shapes that operands get before `matmul`, and that its result gets. Operands are reshaped, or ``expanded``
    if a leading dimension is stretched."""

    left: Shape
    right: Shape
    result: Shape
    expanded: bool


def aligned(x: Shape, y: Shape) -> Alignment | None:
    """How ``x @ y`` is one `matmul`; None if an operand is a scalar, or the leading dimensions do not broadcast.

    A batch times one matrix, [.., m, k] by [k, n], is one product of [prod(..) * m, k] by [k, n]: the reshapes are
    views. A vector is a row on the left and a column on the right, and the result loses that dimension. All else that
    is stretched is expanded, which copies.
    """
    if not x or not y:
        return None
    row, column = len(x) == 1, len(y) == 1
    a, b = (1, *x) if row else x, (*y, 1) if column else y
    batch = broadcast(a[:-2], b[:-2])
    if isinstance(batch, Broadcast) and batch.condition is False:
        return None
    lead = tuple(d for d in batch if isinstance(d, int))
    result = lead + (() if row else a[-2:-1]) + (() if column else b[-1:])
    if a[:-2] == b[:-2]:
        return Alignment(a, b, result, False)
    if prod(b[:-2]) == 1:
        return Alignment((prod(a[:-1]), a[-1]), b[-2:], result, False)
    return Alignment(lead + a[-2:], lead + b[-2:], result, True)
