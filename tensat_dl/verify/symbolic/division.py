"""Quotients and remainders of indices, and the digits of a place in row-major order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Int, Sym, atoms_of
from tensat_dl.verify.symbolic.assumptions import Digits
from tensat_dl.verify.symbolic.polynomials import long_division, quotient_by

if TYPE_CHECKING:
    from tensat_dl.verify.symbolic.context import Context, Index


def digits(context: Context, offset: Int, shape: Index) -> Index:
    """The index at a place in row-major order. Raises `Digits`."""
    shape = context.simple(shape)
    offset = context.simple(offset)
    out: list[Int] = []
    strides: list[Int] = [1]
    for n in shape[:0:-1]:
        strides.insert(0, sym.mul(strides[0], n))
    for k, stride in enumerate(strides[: len(shape)]):
        if context.known.plainly(shape[k], 1):
            out.append(0)
            continue
        quotient, offset = divided(context, offset, stride)
        out.append(quotient)
    return tuple(out)


def divided(context: Context, p: Int, by: Int) -> tuple[Int, Int]:
    """Quotient and remainder of an integer that is not negative. Raises `Digits`."""
    p, by = context.simple(p), context.simple(by)
    if by == 1:
        return p, 0
    if isinstance(p, int) and isinstance(by, int):
        return divmod(p, by)
    for divisor in (by, *context.known.equal_products(by)):
        quotient, rest = long_division(p, divisor)
        if _below(context, rest, divisor):
            return quotient, rest
    quotient, rest = long_division(p, by)
    for n in sorted(by.atoms() if isinstance(by, Sym) and len(by.terms) == 1 else (), key=repr):
        # (n q + r) / (n k) = q / k for r < n.
        many, few = long_division(p, sym.atom(*n))
        if many != 0 and by != sym.atom(*n) and _below(context, few, sym.atom(*n)):
            quotient, rest = divided(context, many, long_division(by, sym.atom(*n))[0])
            return quotient, sym.add(sym.mul(rest, sym.atom(*n)), few)
    _take_apart(context, rest, by)
    inner, last = sym.floordiv(rest, by), sym.mod(rest, by)
    return sym.add(quotient, inner), last


def _below(context: Context, p: Int, bound: Int) -> bool:
    """Whether 0 <= p < bound: by the greatest values of indices, where p is made of these and of sizes alone, and
    grows with them."""
    atoms = {a for m in sym.terms_of(p) for a in m}
    plain = all(a in context.extents or _is_natural(a) for a in atoms)
    if not plain or any(k < 0 for k in sym.terms_of(p).values()):
        return context.known.holds(sym.all_of((sym.at_most(0, p), sym.at_most(sym.add(p, 1), bound))))
    greatest = p
    for a in sorted(atoms_of(p) & context.extents.keys(), key=repr):
        greatest = sym.substitute(greatest, {a: sym.sub(context.simple(context.extents[a]), 1)})
    short = sym.sub(sym.add(greatest, 1), bound)
    return context.known.holds(sym.at_most(context.simple(short), 0))


def _take_apart(context: Context, p: Int, by: Int) -> None:
    """Raises `Digits` for an index of which a digit is the quotient."""
    if not isinstance(p, Sym):
        return
    for a in sorted(p.atoms() & context.extents.keys(), key=repr):
        coefficient = quotient_by(p, a)
        inner, rest = long_division(by, coefficient)
        if rest != 0 or inner == 1:
            continue
        outer, rest = long_division(context.simple(context.extents[a]), inner)
        apart = (rest == 0 and outer != 1) or (a not in context.free and _is_part(context, rest, inner))
        least = sym.at_most(1 if rest == 0 else 0, outer)
        if apart and outer != 0 and context.known.holds(least) and context.known.holds(sym.at_most(1, inner)):
            raise Digits(a, (outer, inner))


def _is_part(context: Context, rest: Int, whole: Int) -> bool:
    return context.known.holds(sym.all_of((sym.at_most(1, rest), sym.at_most(rest, whole))))


def _is_natural(a: Atom) -> bool:
    """Whether a number is made of sizes alone, and none of them is taken away."""
    if a[0] == "dim" or sym.is_sum_of_dimensions(a):
        return True
    return a[0] in ("div", "mod", "max", "min") and all(
        k > 0 and all(map(_is_natural, m)) for p in a[1:] for m, k in sym.terms_of(p).items()
    )
