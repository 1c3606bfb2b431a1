"""Polynomials over atoms, conditions on them, and unknown values of other kinds: what symbolic values are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        return frozenset(atoms).union(*map(inside, atoms))


@dataclass(frozen=True, slots=True)
class Of:
    """The name of something that varies by member of a list."""

    name: str
    index: Int

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


def is_family(a: Atom) -> bool:
    return len(a) > 1 and isinstance(a[1], Of)


#: Kinds of atoms that are made of integers, and of those the sums over members of a list.
SUMS = ("before", "after")
COMPOSED = frozenset(("div", "mod", "max", "min", "select", "unselect", "element", *SUMS))


@lru_cache(maxsize=1 << 16)
def inside(a: Atom) -> frozenset[Atom]:
    """The atoms that an atom mentions."""
    if a[0] in SUMS:
        return frozenset(b for b in _mentioned(a[1:]) if b != EACH)
    return frozenset(_mentioned(a[1:])) if a[0] in COMPOSED or is_family(a) else frozenset()


def _mentioned(value: Any) -> Iterable[Atom]:
    if isinstance(value, Of):
        yield from _mentioned(value.index)
    elif isinstance(value, Sym | Opaque):
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

    @property
    def mentioned(self) -> frozenset[Atom]:
        """The atoms that it is made of."""
        return frozenset(_mentioned(self.atom))


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


class NotKnown(EvaluationError):
    """An expression has a value, which depends on what is not known when rules are compiled."""


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


def make(terms: Mapping[Monomial, int]) -> Int:
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


def atoms_of(value: Any) -> frozenset[Atom]:
    """The atoms in integers and conditions."""
    if isinstance(value, Sym):
        return value.mentioned
    if isinstance(value, Condition):
        return frozenset[Atom]().union(*map(atoms_of, value.args))
    if isinstance(value, tuple):
        return frozenset[Atom]().union(*map(atoms_of, value))
    return frozenset()


def only_atom(x: Int) -> Atom | None:
    """The atom that an integer is."""
    if isinstance(x, Sym) and len(x.terms) == 1 and x.terms[0][1] == 1 and len(x.terms[0][0]) == 1:
        return x.terms[0][0][0]
    return None
