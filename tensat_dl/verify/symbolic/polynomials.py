"""Division of polynomials."""

from __future__ import annotations

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Int, Sym


def recombined(p: Int) -> Int:
    """A polynomial with q in place of (q / k) k + q % k."""
    for a in sorted(p.atoms() if isinstance(p, Sym) else (), key=repr):
        if a[0] == "mod":
            whole = ("div", *a[1:])
            rests, quotients = quotient_by(p, a), quotient_by(p, whole)
            if rests != 0 and quotients == sym.mul(rests, a[2]):
                parts = sym.add(sym.mul(rests, sym.atom(*a)), sym.mul(quotients, sym.atom(*whole)))
                return recombined(sym.add(sym.sub(p, parts), sym.mul(rests, a[1])))
    return p


def quotient_by(p: Int, a: Atom) -> Int:
    """The coefficient of an atom in a polynomial."""
    if not isinstance(p, Sym):
        return 0
    out: Int = 0
    for monomial, k in p.terms:
        if monomial.count(a) == 1:
            rest = list(monomial)
            rest.remove(a)
            out = sym.add(out, Sym(((tuple(rest), k),)) if rest else k)
    return out


def long_division(p: Int, by: Int) -> tuple[Int, Int]:
    """Quotient and remainder of polynomials, by the leading term of the divisor."""
    if isinstance(p, int) and isinstance(by, int):
        return (p // by, p % by) if by else (0, p)
    divisor = list(sym.terms_of(by).items())
    if not divisor:
        return 0, p
    lead, factor = max(divisor, key=lambda mk: (len(mk[0]), repr(mk[0])))
    quotient: Int = 0
    rest: Int = p
    for _ in range(16):
        for monomial, k in sym.terms_of(rest).items():
            left = list(monomial)
            if k % factor or not all(_take(left, x) for x in lead):
                continue
            part: Int = Sym(((tuple(left), k // factor),)) if left else k // factor
            quotient = sym.add(quotient, part)
            rest = sym.sub(rest, sym.mul(part, by))
            break
        else:
            break
    return quotient, rest


def _take(items: list[Atom], x: Atom) -> bool:
    if x not in items:
        return False
    items.remove(x)
    return True
