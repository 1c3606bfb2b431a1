"""Integers that may be unknown: polynomials over atoms, and conditions on them.

Shape rules are evaluated in two domains by one evaluator. With concrete shapes every value is a Python int and
every condition a Python bool. With pattern variables a dimension is an *atom*, arithmetic builds polynomials with
integer coefficients, and a condition that is neither plainly true nor plainly false is a `Condition`. Atoms are
tuples whose first element tells their kind:

    ("dim", x, i)        dimension i of tensor variable x
    ("attr", a)          integer attribute variable a
    ("elem", a, i, n)    element i of list variable a, which has n
    ("div", p, q)        p / q, rounded down            ("mod", p, q)    the remainder
    ("max", p, q)  ("min", p, q)                        ("select", ps, p)  element p of the list ps
    ("unselect", ps, qs, p)  element of ps where the permutation qs has p
    ("element", x, p)  the element of an integer tensor variable x at offset p
    ("before", p)  the sum of p over the members of a list before `MEMBER`    ("after", p)  over those after it

What varies by member of a list has the name ``Of(x, i)``: ("dim", Of("w", p), 0) is dimension 0 of member p of w.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from tensat_dl.core.diagnostics import Span

T = TypeVar("T")

Atom = tuple[Any, ...]
Monomial = tuple[Atom, ...]

#: In what holds of each member of a list of unknown length: the index.
EACH: Atom = ("each",)
#: The index of the member that a proof about such lists is about, and how many members there are.
MEMBER: Atom = ("member",)
LENGTH: Atom = ("dim", "[..]", 0)


def remembered(cls: type[T]) -> type[T]:
    """A frozen dataclass whose objects compute their hash and their text once: normal forms ask for both often.
    Copies in other processes compute theirs anew, since hashes of strings differ there."""
    hash_of, text_of = cls.__hash__, cls.__repr__
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]

    def __hash__(self: T) -> int:
        try:
            return self._hash  # type: ignore[attr-defined, no-any-return]
        except AttributeError:
            found = self.__dict__["_hash"] = hash_of(self)
            return found

    def __repr__(self: T) -> str:
        found = self.__dict__.get("_text")
        if found is None:
            found = self.__dict__["_text"] = text_of(self)
        return str(found)

    def __reduce__(self: T) -> tuple[Any, ...]:
        return cls, tuple(getattr(self, name) for name in names)

    for method in (__hash__, __repr__, __reduce__):
        setattr(cls, method.__name__, method)
    return cls


@remembered
@dataclass(frozen=True)
class Sym:
    """A polynomial: sorted (monomial, coefficient) pairs without zero coefficients. Never a constant."""

    terms: tuple[tuple[Monomial, int], ...]

    @cached_property
    def coefficients(self) -> Mapping[Monomial, int]:
        return dict(self.terms)

    def atoms(self) -> set[Atom]:
        return {a for m, _ in self.terms for a in m}

    @cached_property
    def mentioned(self) -> frozenset[Atom]:
        """Its atoms, those inside of atoms too."""
        atoms = self.atoms()
        return frozenset(atoms).union(*map(_inside, atoms))


@dataclass(frozen=True, slots=True)
class Of:
    """The name of something that varies by member of a list."""

    name: str
    index: Int

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


def _is_family(a: Atom) -> bool:
    return len(a) > 1 and isinstance(a[1], Of)


@lru_cache(maxsize=1 << 16)
def _inside(a: Atom) -> frozenset[Atom]:
    """The atoms that an atom mentions."""
    if a[0] in _SUMS:
        return frozenset(b for b in _mentioned(a[1:]) if b != EACH)
    return frozenset(_mentioned(a[1:])) if a[0] in _REBUILD or _is_family(a) else frozenset()


def _mentioned(value: Any) -> Iterable[Atom]:
    if isinstance(value, Of):
        yield from _mentioned(value.index)
    elif isinstance(value, Sym):
        yield from value.mentioned
    elif isinstance(value, tuple):
        for v in value:
            yield from _mentioned(v)


Int = int | Sym


@dataclass(frozen=True, slots=True)
class Opaque:
    """An unknown value that is not an integer: an element type, a string, a float or a truth value. ``words`` has the
    words of its attribute; it is empty if any word is allowed."""

    atom: Atom
    words: tuple[str, ...] = field(default=(), repr=False)


@remembered
@dataclass(frozen=True)
class Condition:
    """A condition on unknowns. ``eq``/``ne``/``le``: args = (p,), meaning p = 0, p != 0, p <= 0. ``same``: two values
    that are not integers are equal. ``below``: of two numbers, one of them a float, the first is smaller. ``holds``:
    an element type has a value. ``and``/``or``/``not`` combine conditions. ``every``: a condition holds of so many
    members of a list (see `every`). ``weight``/``start``/``value``: facts about a tensor variable that only an
    e-graph knows."""

    kind: str
    args: tuple[Any, ...]

    @cached_property
    def about(self) -> frozenset[Any]:
        """The unknowns that it mentions, and its parts."""
        found: set[Any] = set()
        for part in self.args:
            if isinstance(part, Condition):
                found |= part.about
            else:
                found.add(part)
                found |= part.mentioned if isinstance(part, Sym) else frozenset()
        return frozenset(found)


Bool = bool | Condition


class EvaluationError(Exception):
    """An expression has no value: division by zero, an index out of range, a list where a number is needed.

    ``span`` is that expression's, once it is known."""

    span: Span | None = None


def atom(*parts: Any) -> Sym:
    return Sym((((tuple(parts),), 1),))


def elements(name: str | Of, length: int) -> tuple[Sym, ...]:
    """A list variable of a known length."""
    return tuple(atom("elem", name, i, length) for i in range(length))


def terms_of(x: Int) -> dict[Monomial, int]:
    """The terms of a polynomial: coefficients by monomial."""
    if isinstance(x, Sym):
        return dict(x.terms)
    return {(): x} if x else {}


def _make(terms: Mapping[Monomial, int]) -> Int:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1:
        return kept[()] if () in kept else Sym(tuple(kept.items()))
    return Sym(tuple(sorted(kept.items(), key=_order)))


@lru_cache(maxsize=1 << 16)
def text_of(parts: tuple[Any, ...]) -> str:
    """An atom or a monomial, to sort by."""
    return repr(parts)


def _order(term: tuple[Monomial, int]) -> str:
    return text_of(term[0])


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
    return _make(out)


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
    return _make(out)


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
    return _make(out)


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


def atoms_of(value: Any) -> frozenset[Atom]:
    """The atoms in integers and conditions."""
    if isinstance(value, Sym):
        return value.mentioned
    if isinstance(value, Condition):
        return frozenset[Atom]().union(*map(atoms_of, value.args))
    if isinstance(value, tuple):
        return frozenset[Atom]().union(*map(atoms_of, value))
    return frozenset()


def element(tensor: str, offset: Int) -> Int:
    """An element of an integer tensor."""
    return atom("element", tensor, offset)


def only_atom(x: Int) -> Atom | None:
    """The atom that an integer is."""
    if isinstance(x, Sym) and len(x.terms) == 1 and x.terms[0][1] == 1 and len(x.terms[0][0]) == 1:
        return x.terms[0][0][0]
    return None


def fact(function: str, tensor: str) -> Any:
    """The answer of a function that asks an e-graph about a tensor, as an unknown: see
    `tensat_dl.core.expression.Fact`."""
    match function:
        case "factors":
            return atom("factors", tensor)
        case "value":
            return Opaque(("value", tensor))
        case "varying":
            return negate(Condition("weight", (tensor,)))
    return Condition(function, (tensor,))


# ---- conditions -----------------------------------------------------------------------------------------


def equal(a: Any, b: Any) -> Bool:
    """Equality of integers, lists, or values of any other kind."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            return False
        return all_of(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise EvaluationError("a list is compared with something that is not a list")
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        return True if a == b else Condition("same", tuple(sorted((a, b), key=repr)))
    if isinstance(a, Sym) or isinstance(b, Sym):
        p = sub(a, b)
        if isinstance(p, int):
            return p == 0
        if p.terms[0][1] < 0:  # a = b and b = a are one condition
            flipped = neg(p)
            assert isinstance(flipped, Sym)
            p = flipped
        return Condition("eq", (p,))
    return bool(a == b)


def at_most(a: Int, b: Int) -> Bool:
    p = sub(a, b)
    return p <= 0 if isinstance(p, int) else Condition("le", (p,))


def compared(kind: str, p: Int) -> Bool:
    """The condition that p = 0 (``eq``), p != 0 (``ne``) or p <= 0 (``le``)."""
    if kind == "le":
        return at_most(p, 0)
    return equal(p, 0) if kind == "eq" else negate(equal(p, 0))


def below(a: Any, b: Any) -> Bool:
    """a < b for numbers that may be floats."""
    if any(isinstance(x, Opaque | Sym) for x in (a, b)):
        return Condition("below", (a, b))
    return bool(a < b)


def negate(c: Bool) -> Bool:
    if isinstance(c, bool):
        return not c
    if c.kind == "not":
        inner: Bool = c.args[0]
        return inner
    if c.kind == "eq":
        return Condition("ne", c.args)
    if c.kind == "le":  # not p <= 0 is 1 - p <= 0 for integers
        return at_most(sub(1, c.args[0]), 0)
    return Condition("not", (c,))


def all_of(conditions: Iterable[Bool]) -> Bool:
    return _combined("and", conditions, True)


def any_of(conditions: Iterable[Bool]) -> Bool:
    return _combined("or", conditions, False)


def _combined(kind: str, conditions: Iterable[Bool], neutral: bool) -> Bool:
    """Conditions joined by "and" or "or", flattened; ``neutral`` is the truth value that makes no difference."""
    kept: list[Condition] = []
    for c in conditions:
        if isinstance(c, Condition):
            kept += [c] if c.kind != kind else list(c.args)
        elif c is not neutral:
            return c
    unique = tuple(dict.fromkeys(kept))
    if not unique:
        return neutral
    return unique[0] if len(unique) == 1 else Condition(kind, unique)


def substitute(value: Any, known: Mapping[Atom, Int]) -> Any:
    """The value with atoms replaced and simplified again."""
    if not known:
        return value
    if isinstance(value, Sym):
        if known.keys().isdisjoint(value.mentioned):
            return value
        total: dict[Monomial, int] = {}
        for monomial, coefficient in value.terms:
            kept = tuple(a for a in monomial if a not in known and known.keys().isdisjoint(_inside(a)))
            if len(kept) == len(monomial):
                total[monomial] = total.get(monomial, 0) + coefficient
                continue
            product: Int = Sym(((kept, coefficient),)) if kept else coefficient
            for a in monomial:
                if a not in kept:
                    product = mul(product, _substitute_atom(a, known))
            for m, c in terms_of(product).items():
                total[m] = total.get(m, 0) + c
        return _make(total)
    if isinstance(value, tuple):
        return tuple(substitute(v, known) for v in value)
    if isinstance(value, Condition):
        return _substitute_condition(value, known)
    return Of(value.name, substitute(value.index, known)) if isinstance(value, Of) else value


def _substitute_condition(c: Condition, known: Mapping[Atom, Int]) -> Bool:
    match c.kind:
        case "eq" | "ne" | "le":
            p = substitute(c.args[0], known)
            return c if p is c.args[0] else compared(c.kind, p)
        case "and":
            return all_of(substitute(x, known) for x in c.args)
        case "or":
            return any_of(substitute(x, known) for x in c.args)
        case "not":
            return negate(substitute(c.args[0], known))
        case "every":
            item, length = c.args
            return every(substitute(item, known), length)
    return c


def every(item: Bool, length: Int) -> Bool:
    """Whether a condition, where `EACH` is the index, holds of that many members of a list, from the first on."""
    return item if isinstance(item, bool) else Condition("every", (item, length))


def before(p: Int) -> Int:
    """The sum of p, where `EACH` is the index, over the members of a list before `MEMBER`."""
    return _over_members("before", p, atom(*MEMBER))


def after(p: Int) -> Int:
    """The sum of p, where `EACH` is the index, over the members of a list after `MEMBER`."""
    return _over_members("after", p, sub(atom(*LENGTH), add(atom(*MEMBER), 1)))


def _over_members(kind: str, p: Int, count: Int) -> Int:
    out: Int = 0
    for monomial, k in terms_of(p).items():
        varying = tuple(a for a in monomial if a == EACH or EACH in Sym((((a,), 1),)).mentioned)
        rest = (
            Sym(((tuple(a for a in monomial if a not in varying), k),)) if len(varying) < len(monomial) else k
        )
        out = add(out, mul(rest, _summed(kind, varying) if varying else count))
    return out


def _summed(kind: str, varying: Monomial) -> Int:
    next_one = add(atom(*EACH), 1)
    a = varying[0]
    if kind == "before" and len(varying) == 1 and _is_family(a) and a[1].index == next_one:
        # f(1) + .. + f(m) = f(0) + .. + f(m - 1) + f(m) - f(0)
        this, member, first = (atom(a[0], Of(a[1].name, i), *a[2:]) for i in (atom(*EACH), atom(*MEMBER), 0))
        return sub(add(before(this), member), first)
    return atom(kind, Sym(((varying, 1),)))


def is_sum_of_dimensions(a: Atom) -> bool:
    """Whether an atom is a sum over members of a list that is not negative."""
    return a[0] in _SUMS and all(b[0] == "dim" for b in a[1].atoms())


_SUMS: Mapping[str, Callable[..., Int]] = {"before": before, "after": after}
_REBUILD: Mapping[str, Callable[..., Int]] = {
    "div": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
    "select": select,
    "unselect": unselect,
    "element": element,
    **_SUMS,
}


def _substitute_atom(a: Atom, known: Mapping[Atom, Int]) -> Int:
    if a in known:
        return known[a]
    if _is_family(a):
        return atom(a[0], *(substitute(x, known) for x in a[1:]))
    rebuild = _REBUILD.get(a[0])
    if rebuild is None:
        return Sym((((a,), 1),))
    parts = [substitute(x, known) for x in a[1:]]
    result: Int = rebuild(*parts)
    return result
