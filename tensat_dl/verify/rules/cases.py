"""The cases of a rule: the outcomes of each minimum, maximum, remainder, quotient and comparison that its sides, its
conditions and its operators' declarations have, at chosen ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, Monomial, Of, Opaque, Sym

#: Numbers up to this come up anyway.
SMALL = 6


@dataclass(frozen=True, slots=True)
class RuleCase:
    """A condition on unknowns, as ``text``. ``name`` is the same at all ranks and for all members. A verdict tells of
    cases that were never tried if they are ``told``; others are tried if they can be."""

    name: str
    text: str
    condition: Condition
    told: bool = True


def cases(values: Any, axes: Mapping[int, str]) -> tuple[RuleCase, ...]:
    """The cases in symbolic integers and conditions, each once. The conditions hold. ``axes`` has the rule's names of
    axes."""
    found = ((c, told) for c, told in _cases(values, True) if isinstance(c, Condition))
    return tuple(named(c, axes, told) for c, told in dict(found).items())


def named(c: Condition, axes: Mapping[int, str], told: bool = True) -> RuleCase:
    """A condition as a case."""
    text = _Words(axes)(c)
    return RuleCase(_Words(None)(c), text, c, told and ":" not in text)  # of an attribute without a name


def _cases(value: Any, holds: bool) -> Iterator[tuple[Bool, bool]]:
    """``holds``: a condition is true, as it is not part of another one."""
    match value:
        case tuple():
            for part in value:
                yield from _cases(part, holds)
        case Of():
            yield from _cases(value.index, True)
        case Opaque(("float", _, left, right)):
            yield from _cases((left, right), True)
        case Sym():
            for a in sorted(value.atoms(), key=repr):
                yield from _of_atom(a)
        case Condition("and" | "or" | "not" as kind, parts):
            yield from _cases(parts, holds and kind == "and")
            if not holds and kind != "not":
                yield value, False
                yield sym.negate(value), False
        case Condition("eq" | "ne" | "le" as kind, (p,)):
            yield from _cases(p, True)
            if not holds:
                yield value, True
                yield sym.negate(value), True
            elif kind != "eq":
                yield sym.at_most(p, -1), True
            if holds and kind == "ne":
                yield sym.at_most(sym.neg(p), -1), True
            if holds and kind == "le" and any(abs(k) > SMALL for _, k in p.terms):
                yield sym.equal(p, 0), False


def _of_atom(a: Atom) -> Iterator[tuple[Bool, bool]]:
    yield from _cases(a[1:], True)
    match a:
        case ("min" | "max", p, q):
            d = sym.sub(p, q)
            yield sym.at_most(d, -1), True
            yield sym.at_most(sym.neg(d), -1), True
        case ("div" | "mod", p, q):
            whole = sym.equal(sym.mod(p, q), 0)
            yield whole, True
            yield sym.negate(whole), True
            yield sym.at_most(sym.sub(p, q), -1), False
            yield sym.at_most(sym.sub(q, p), -1), True


def products(values: Any) -> Mapping[str, Sym]:
    """The parts of symbolic integers that multiply outcomes, ``min(p, 1) * min(q, 1)`` of
    ``n + min(p, 1) * min(q, 1)``, by a name that is the same at all ranks. Each factor may take all of its outcomes,
    and their product be the same always."""
    parts = (part for p in dict.fromkeys(_sums(values)) for part in _connected(p))
    return {_Words(None)(p): p for p in parts if any(len(_outcomes(m)) > 1 for m, _ in p.terms)}


def _sums(value: Any) -> Iterator[Sym]:
    """The symbolic integers in a value, those inside of others too."""
    match value:
        case Sym():
            yield value
            yield from _sums(tuple(sorted(value.atoms(), key=repr)))
        case tuple():
            for part in value:
                yield from _sums(part)
        case Of():
            yield from _sums(value.index)
        case Opaque(atom):
            yield from _sums(atom)
        case Condition():
            yield from _sums(value.args)


def _connected(p: Sym) -> Iterator[Sym]:
    """The terms of a polynomial that have outcomes, apart where they have none in common."""
    groups: list[set[Atom]] = []
    for m, _ in p.terms:
        own = _outcomes(m)
        joined = own.union(*(g for g in groups if g & own))
        groups = [joined, *(g for g in groups if not g & own)]
    for group in filter(None, groups):
        yield Sym(tuple(t for t in p.terms if not group.isdisjoint(t[0])))


def _outcomes(m: Monomial) -> set[Atom]:
    return {a for a in m if a[0] in ("min", "max", "div", "mod")}


_SIGNS = {"eq": "==", "ne": "!=", "le": "<="}
_FLIPPED = {"<": ">", "<=": ">="}
_OPERATORS = {"div": "/", "mod": "%"}


@dataclass(frozen=True)
class _Words:
    """Writes conditions as the language has them, with the names of ``axes``. With None for these, all axes and all
    members read alike."""

    axes: Mapping[int, str] | None

    def __call__(self, x: Any) -> str:
        match x:
            case Sym():
                return self._sum(x.coefficients)
            case Condition("eq" | "ne" | "le" as kind, (p,)):
                return self._compared(p, _SIGNS[kind])
            case Condition("not", (inner,)):
                return f"not {self(inner)}"
            case Condition("and" | "or" as kind, parts):
                return f"({f' {kind} '.join(map(self, parts))})"
            case Opaque(("float", op, left, right)):
                return f"{self(left)} {op} {self(right)}"
            case Opaque(atom):
                return self._atom(atom)
            case tuple():
                return f"[{', '.join(map(self, x))}]"
        return str(x)

    def _compared(self, p: Int, sign: str) -> str:
        """``p sign 0``, without negative terms, and with a number on the right: ``dim(x, 0) > 64``."""
        terms = dict(sym.terms_of(p))
        if sign == "<=" and terms.get((), 0) > 0:  # p + 1 <= 0 is p < 0
            terms[()] -= 1
            sign = "<"
        left, right = ({m: s * k for m, k in terms.items() if s * k > 0} for s in (1, -1))
        if set(left) <= {()}:
            left, right, sign = right, left, _FLIPPED.get(sign, sign)
        return f"{self._sum(left)} {sign} {self._sum(right)}"

    def _sum(self, terms: Any) -> str:
        ordered = sorted(terms.items(), key=lambda t: (t[1] < 0, t[0] == ()))
        return " + ".join(self._term(m, k) for m, k in ordered).replace("+ -", "- ") or "0"

    def _term(self, monomial: Monomial, k: int) -> str:
        factors = [self._atom(a) for a in monomial]
        if not factors:
            return str(k)
        return ("-" if k == -1 else "" if k == 1 else f"{k} * ") + " * ".join(factors)

    def _factor(self, p: Int) -> str:
        return self(p) if isinstance(p, int) or sym.only_atom(p) else f"({self(p)})"

    def _atom(self, a: Atom) -> str:
        match a:
            case ("dim", x, k):
                return (
                    f"dim({x}, {self.axes.get(k, k)})"
                    if self.axes is not None
                    else f"dim({re.sub('[0-9]+]', ']', str(x))})"
                )
            case ("elem" | "attr", s, k, *_):
                return f"{s}[{k}]" if self.axes is not None else f"{s}[]"
            case ("attr", name):
                return str(name)
            case ("div" | "mod" as kind, p, q):
                return f"({self._factor(p)} {_OPERATORS[kind]} {self._factor(q)})"
            case ("min" | "max" as kind, p, q):
                parts = [*self._extremes(kind, p), *self._extremes(kind, q)]
                return f"{kind}({', '.join(parts if self.axes is not None else sorted(set(parts)))})"
            case ("select", items, k):
                return f"{self(items)}[{self(k)}]"
        return f"{a[0]}({', '.join(map(self, a[1:]))})"

    def _extremes(self, kind: str, p: Int) -> Iterator[str]:
        """The operands of nested minima, or maxima."""
        inner = sym.only_atom(p)
        if inner is not None and inner[0] == kind:
            for part in inner[1:]:
                yield from self._extremes(kind, part)
        else:
            yield self(p)


def place(case: RuleCase, rule: RewriteRule) -> str:
    """The expression of a rule that has a number of a case's text; "" if there is none."""
    numbers = {int(n) for n in re.findall(r"\b\d+\b(?![\])])", case.text)}
    waiting: list[Any] = [rule.conditions, [k.value for n in rule.nodes for k in n.attrs], rule.target.lets]
    while waiting:
        tree = waiting.pop(0)
        parts = list(tree if isinstance(tree, list) else ex.children(tree))
        if isinstance(tree, ex.Call | ex.Binary):
            operands = [x for part in parts for x in (part if isinstance(part, tuple) else (part,))]
            if any(isinstance(x, ex.Const) and x.value in numbers - {0, 1} for x in operands):
                return tree.span.line
        waiting = [*parts, *waiting]
    return ""
