"""Arithmetic on integers that may be unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tensat_dl.ops.symbolic.terms import (
    Atom,
    EvaluationError,
    Int,
    Monomial,
    Sym,
    atom,
    make,
    only_atom,
    terms_of,
    text_of,
)


def add(a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else _plus(a, 1, b)


def sub(a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return _plus(a, -1, b)


def _plus(a: Int, factor: int, b: Int) -> Int:
    if b == 0:
        return a
    out = terms_of(a)
    for m, c in terms_of(b).items():
        out[m] = out.get(m, 0) + factor * c
    return make(out)


def neg(a: Int) -> Int:
    return -a if isinstance(a, int) else _scaled(a, -1)


def _scaled(a: Sym, by: int) -> Int:
    return Sym(tuple((m, by * c) for m, c in a.terms)) if by else 0


def mul(a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    assert isinstance(a, Sym)
    if isinstance(b, int):
        return a if b == 1 else _scaled(a, b)
    out: dict[Monomial, int] = {}
    for m, c in a.terms:
        for n, d in b.terms:
            key = tuple(sorted(m + n, key=text_of)) if m and n else m or n
            out[key] = out.get(key, 0) + c * d
    return make(out)


def _exact_quotient(a: Int, b: Int) -> Int | None:
    """a / b where b is a monomial that divides every term of a, and is not 0: of dimensions."""
    divisor = terms_of(b)
    if len(divisor) != 1:
        return None
    ((by, factor),) = divisor.items()
    if any(x[0] != "dim" for x in by):
        return None
    out: dict[Monomial, int] = {}
    for m, c in terms_of(a).items():
        rest = list(m)
        for x in by:
            if x not in rest:
                return None
            rest.remove(x)
        if c % factor:
            return None
        out[tuple(rest)] = c // factor
    return make(out)


def floordiv(a: Int, b: Int) -> Int:
    if b == 0:
        raise EvaluationError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = _exact_quotient(a, b)
    return exact if exact is not None else atom("div", a, b)


def mod(a: Int, b: Int) -> Int:
    if b == 0:
        raise EvaluationError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return 0 if _exact_quotient(a, b) is not None else atom("mod", a, b)


def maximum(a: Int, b: Int) -> Int:
    return _extreme("max", max, a, b)


def minimum(a: Int, b: Int) -> Int:
    return _extreme("min", min, a, b)


def _extreme(kind: str, pick: Callable[[int, int], int], a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return pick(a, b)
    return a if a == b else atom(kind, *sorted((a, b), key=repr))


def select(items: tuple[Int, ...], index: Int) -> Int:
    """``items[index]``; negative indices count from the end."""
    if isinstance(index, int):
        if not -len(items) <= index < len(items):
            raise EvaluationError(f"index {index} is outside a list of {len(items)}")
        return items[index]
    inner = [only_atom(i) for i in items]
    first = inner[0] if inner else None
    if first is not None and all(a is not None and a[:2] == first[:2] and a[0] == "select" for a in inner):
        # A list that picks from one other list: pick the position first, so that compositions have one form.
        return select(first[1], select(tuple(a[2] for a in inner if a is not None), index))
    if (
        first is not None
        and first[0] in ("max", "min")
        and all(a is not None and a[0] == first[0] for a in inner)
    ):
        fold = maximum if first[0] == "max" else minimum
        sides = [tuple(a[k] for a in inner if a is not None) for k in (1, 2)]
        return fold(select(sides[0], index), select(sides[1], index))
    return atom("select", items, index)


def unselect(items: tuple[Int, ...], order: tuple[Int, ...], axis: Int) -> Int:
    """The element that stands where a permutation ``order`` has ``axis``: ``items[k]`` is element ``order[k]`` of a
    list of which this is element ``axis``."""
    known = [k for k, p in enumerate(order) if isinstance(p, int)]
    if axis in order:
        return items[order.index(axis)]
    # What stands where the permutation has another axis makes no difference.
    items = tuple(0 if k in known else item for k, item in enumerate(items))
    inner = [only_atom(i) for i in items]
    first = inner[0] if inner else None
    if first is None:
        offset = items[0] if isinstance(items[0], int) else _constant(items[0])
        if offset and all(isinstance(i, Sym) and _constant(i) == offset for i in items):
            return add(unselect(tuple(sub(i, offset) for i in items), order, axis), offset)
    elif all(a is not None and a[0] == "select" and a[1] == first[1] for a in inner):
        if tuple(a[2] for a in inner if a is not None) == order:
            return select(first[1], axis)
    elif first[0] in ("min", "max") and all(a is not None and a[0] == first[0] for a in inner):
        fold = minimum if first[0] == "min" else maximum
        for flipped in _sides([a for a in inner if a is not None]):
            left, right = (unselect(side, order, axis) for side in flipped)
            return fold(left, right)
    elif first[0] == "unselect" and all(
        a is not None and a[:3] == first[:3] and a[3] == k for k, a in enumerate(inner)
    ):
        return unselect(first[1], tuple(select(order, q) for q in first[2]), axis)
    return atom("unselect", items, order, axis)


def _sides(atoms: list[Atom]) -> Iterable[tuple[tuple[Int, ...], tuple[Int, ...]]]:
    """The operands of several minima, those with constants apart from the others if all have one."""
    apart = [sorted(a[1:], key=lambda p: isinstance(p, Sym) and _constant(p) != 0) for a in atoms]
    yield tuple(p for p, _ in apart), tuple(q for _, q in apart)


def _constant(p: Int) -> int:
    return p if isinstance(p, int) else p.coefficients.get((), 0)


def element(tensor: str, offset: Int) -> Int:
    """An element of an integer tensor."""
    return atom("element", tensor, offset)
