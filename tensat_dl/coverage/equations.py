"""Equations of an operator and a transformation, as texts of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from string import ascii_lowercase

from tensat_dl.ops.table import AttrDecl, OpDecl
from tensat_dl.ops.traits import traits

#: The names of operands, and of the two tensors in the place of each where something joins two.
OPERANDS = "xyzuv"
COPIES = ("ab", "cd", "eg", "hi", "jk")
#: Names that stand for something in all equations: operands, their copies, and the numbers of transformations.
TAKEN = frozenset("xyzuvwabcdiklmnpst")


@dataclass(frozen=True, slots=True)
class Law:
    """An equation: two terms, and the conditions under which they are equal."""

    left: str
    right: str
    where: tuple[str, ...] = ()

    def rule(self, name: str) -> str:
        """The equation as a rule of this name."""
        conditions = f" where {', '.join(self.where)}" if self.where else ""
        return f"rule {name} {{ {self.left}{conditions} => {self.right} }}\n"


#: The laws of one question, the most general first. The first is what one would ask.
Question = tuple[Law, ...]


@dataclass(frozen=True)
class OpTerms:
    """An operator with variables for its operands and attributes."""

    decl: OpDecl
    variables: Mapping[str, str] = field(init=False)  #: by attribute

    def __post_init__(self) -> None:
        taken, found = {*TAKEN, *chain(*COPIES[: len(self.operands)])}, {}
        for a in self.decl.attrs:
            letters = chain(a.name.replace("_", ""), "rqgj", ascii_lowercase)
            found[a.name] = next(c for c in letters if c not in taken)
            taken.add(found[a.name])
        object.__setattr__(self, "variables", found)

    @property
    def operands(self) -> tuple[str, ...]:
        """The variables of operands. Optional operands are left out; a list of tensors has two."""
        count = sum(2 if p.kind == "many" else 1 for p in self.decl.inputs if p.kind != "optional")
        return tuple(OPERANDS[:count])

    def attrs(self, kind: str) -> list[AttrDecl]:
        """The attributes of a type; "list" are lists with a number for each dimension, "image" pairs and fours."""
        if kind == "list":
            return [a for a in self.decl.attrs if a.listed]
        if kind == "image":
            return [a for a in self.decl.attrs if a.length is not None]
        return [a for a in self.decl.attrs if a.type == kind]

    def given(self, plain: Sequence[str] = ()) -> dict[str, str]:
        """A variable for each attribute, but for the ``plain`` ones, which have their default."""
        return {a.name: self.variables[a.name] for a in self.decl.attrs if a.name not in plain}

    def __call__(self, operands: Sequence[str], attrs: Mapping[str, str]) -> str:
        """An application."""
        return call(self.decl.name, operands, attrs)

    def groups(self) -> Iterator[tuple[int, ...]]:
        """The operands that are transformed together: all, the first, and each other one by itself. Of elementwise
        operators a scalar is the other operand, and of a selection the condition stays."""
        n = len(self.operands)
        if traits(self.decl.name).family == "elementwise" and n > 1:
            yield from ((tuple(range(n)), (1, 2)) if n == 3 else ((0, 1), (0,)))
            return
        if n == 0:
            return
        if 1 < n <= 3:
            yield tuple(range(n))
        yield (0,)
        if n == 3:
            yield (1, 2)
        if n <= 3 and not self.decl.commutative:
            yield from ((i,) for i in range(1, n))

    def plain(self) -> Iterator[tuple[str, ...]]:
        """The attributes that have their default: none of them, or those that are words."""
        yield ()
        words = tuple(a.name for a in self.decl.attrs if a.choices and a.default is not None)
        if words:
            yield words


def call(op: str, operands: Sequence[str], attrs: Mapping[str, str]) -> str:
    """The text of an application."""
    settings = ", ".join(f"{name} = {value}" for name, value in attrs.items())
    return f"{op}({', '.join(operands)}{'; ' + settings if settings else ''})"


def swapped(a: AttrDecl, variable: str) -> str:
    """Numbers for rows and columns, exchanged."""
    order = (1, 0) if a.length == 2 else (1, 0, 3, 2)
    return f"[{', '.join(f'{variable}[{i}]' for i in order)}]"
