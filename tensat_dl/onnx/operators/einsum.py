"""Einsum of one operand or two: matrix products between transposes and reshapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tensat_dl.core.graph import FLOATS
from tensat_dl.onnx.operator import OnnxRow, Reading, Unmapped


def _read_einsum(r: Reading) -> int:
    """Indices of both operands that the result has are batches, those that it lacks are summed over; each operand's
    own ones are its rows or columns."""
    terms, result = parsed(str(r.attr("equation", "")), len(r.node.inputs))
    xs = r.xs()
    if any(
        r.type(x).rank != len(term) or r.type(x).dtype not in FLOATS
        for x, term in zip(xs, terms, strict=True)
    ):
        raise Unmapped("its operands are not floats with an axis for each index")
    if len(xs) == 1:
        if set(terms[0]) != set(result):
            raise Unmapped("it sums over an index of one operand")
        return _turned(r, xs[0], terms[0], result)
    if any((set(a) - set(b)) - set(result) for a, b in (terms, terms[::-1])):
        raise Unmapped("it sums over an index of one operand")
    sizes: dict[str, int] = {}
    for x, term in zip(xs, terms, strict=True):
        for index, n in zip(term, r.type(x).shape, strict=True):
            if sizes.setdefault(index, n) != n:
                raise Unmapped("an index is stretched")
    # The operand whose indices come last in the result gives the columns: then the product is in order.
    order = [0, 1] if result[-1:] not in set(terms[0]) - set(terms[1]) else [1, 0]
    (x, left), (y, right) = ((xs[k], terms[k]) for k in order)
    batch = [i for i in result if i in left and i in right]
    rows, columns = ([i for i in result if i in a and i not in b] for a, b in ((left, right), (right, left)))
    summed = [i for i in left if i in right and i not in result]
    shape = [sizes[i] for i in batch]
    m, n, k = (prod(sizes[i] for i in part) for part in (rows, columns, summed))
    product = r.op(
        "matmul",
        r.reshaped(_turned(r, x, left, (*batch, *rows, *summed)), (*shape, m, k)),
        r.reshaped(_turned(r, y, right, (*batch, *summed, *columns)), (*shape, k, n)),
    )
    made = (*batch, *rows, *columns)
    return _turned(r, r.reshaped(product, [sizes[i] for i in made]), made, result)


def parsed(equation: str, operands: int) -> tuple[list[str], str]:
    """The indices of the operands and of the result, a letter each. Raises `Unmapped` for other equations than such
    with one operand or two, whose indices are all different."""
    left, arrow, result = "".join(equation.split()).partition("->")
    terms = left.split(",")
    if not arrow:  # indices that come once, in the order of the alphabet
        result = "".join(sorted(i for i in set(left) - {","} if left.count(i) == 1))
    if len(terms) != operands or operands > 2:
        raise Unmapped("it has more than two operands")
    if (
        "." in equation
        or any(len(set(t)) != len(t) for t in (*terms, result))
        or not set(result) <= set(left)
    ):
        raise Unmapped("its equation has an ellipsis, or an index twice")
    return terms, result


def _turned(r: Reading, x: int, there: Iterable[str], wanted: Iterable[str]) -> int:
    """``x`` with its axes in another order; itself if it has that one."""
    axes: Sequence[str] = [*there]
    perm = tuple(axes.index(i) for i in wanted)
    return x if perm == tuple(range(len(axes))) else r.op("transpose", x, perm=perm)


ROWS = (OnnxRow("Einsum", _read_einsum),)
