"""What terms are made of: operators, and the values that their attributes get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations, product
from math import isfinite

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Attrs, AttrValue, TensorType
from tensat_dl.core.words import did_you_mean
from tensat_dl.ops.table import AttrDecl, OpDecl, OpTable

#: ``split`` is another way to write slices.
ALIASES = {"split": "slice"}
#: An operator that takes any number of operands gets so many.
OPERANDS = 2
#: Permutations of so many dimensions are tried: all, or of more dimensions these (both ways between layouts).
ALL_PERMUTATIONS = 3
LAYOUTS = ((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3))
#: A list of this many integers that is not the usual one. Small, so that windows still fit: the first axis alone.
UNUSUAL = {2: (2, 1), 4: (1, 0, 0, 0)}


@dataclass(frozen=True, slots=True)
class Menu:
    """The operators that terms are made of, and the numbers, in the order in which they were named."""

    ops: OpTable
    names: tuple[str, ...]
    numbers: tuple[float, ...] = ()

    def arity(self, name: str) -> int:
        """The number of operands that an operator is applied to. Optional ones are left out."""
        decl = self.ops[name]
        return OPERANDS if decl.max_inputs is None else decl.min_inputs

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of one number among them, and those that an attribute names as an activation: what holds for
        the first is tried for the others."""
        words = (w for name in self.names for a in self.ops[name].attrs for w in a.choices if w in self.ops)
        return tuple(n for n in dict.fromkeys((*self.names, *words)) if _is_function(self.ops[n]))

    def attributes(
        self, name: str, types: Sequence[TensorType], dims: Sequence[int]
    ) -> list[tuple[Attrs, bool]]:
        """The attributes that an operator is tried with, and whether they are unusual. ``dims`` are dimensions of
        leaves, which slices begin and end at."""
        decl = self.ops[name]
        if name == "slice":
            return [(decl.ordered(a), True) for a in _slices(types[0], dims)]
        choices = [self._values(decl, a, types) for a in decl.attrs]
        if not all(choices):
            return []
        usual = [values[0] for values in choices]
        words = [i for i, a in enumerate(decl.attrs) if a.choices]
        asked = [i for i, a in enumerate(decl.attrs) if a.default is None]
        others = [i for i, a in enumerate(decl.attrs) if a.default is not None and not a.choices]
        found = {
            tuple(c): False for c in product(*(v if i in asked else v[:1] for i, v in enumerate(choices)))
        }
        for i in words:
            for value in choices[i][1:]:
                found.setdefault(tuple(value if k == i else v for k, v in enumerate(usual)), True)
        if others:  # each attribute that has a default differs from it
            found.setdefault(tuple(choices[k][-1] if k in others else v for k, v in enumerate(usual)), True)
        layouts = types[0].rank > ALL_PERMUTATIONS and any(a.type == "axes" for a in decl.attrs)
        return [
            (tuple(zip((a.name for a in decl.attrs), c, strict=True)), odd or layouts)
            for c, odd in found.items()
        ]

    def _values(self, decl: OpDecl, a: AttrDecl, types: Sequence[TensorType]) -> tuple[AttrValue, ...]:
        """Values of one attribute, the usual one first. Empty where no term can have it."""
        rank = types[0].rank if types else 0
        if a.choices:
            named = [c for c in a.choices if c in self.names and c != a.default]
            first = a.default if a.default is not None else a.choices[0]
            return (first, *named)
        match a.type:
            case "axis":
                return tuple(range(rank))
            case "axes":
                return _permutations(rank)
            case "bool":
                return (True, False) if a.default is True else (False, True)
            case "float":
                return (a.default,) if a.default is not None else (0.5,)
        if a.length in UNUSUAL:
            unusual = UNUSUAL[a.length]
            return (unusual,) if a.default is None else (a.default, unusual)
        if a.type == "int":
            return (2, 1)
        raise TsrError([unsupported(decl, a)])


def unsupported(decl: OpDecl, a: AttrDecl) -> Diagnostic:
    """Says that an operator can't stand in terms."""
    hint = f"terms have no values for an attribute of type {a.type}"
    return Diagnostic(f"`{decl.name}` can't be explored: its attribute `{a.name}` has no menu", None, hint)


def menu(ops: OpTable, names: Iterable[str]) -> Menu:
    """The operators of these names; the others are numbers. Raises `TsrError` for what terms can't be made of."""
    problems: list[Diagnostic] = []
    found: dict[str, None] = {}
    numbers: dict[float, None] = {}
    for given in names:
        with suppress(ValueError):
            if isfinite(number := float(given)):
                numbers[number] = None
                continue
        name = ALIASES.get(given, given)
        if name not in ops:
            hint = did_you_mean(name, ops) or "operators are those of rules/ops.tsr and of the file"
            problems.append(Diagnostic(f"no operator `{name}`", None, hint, path="--ops"))
        elif ops[name].opaque:
            hint = "an opaque operator has types only: nothing can be computed, so no equation can be found"
            problems.append(Diagnostic(f"`{name}` is opaque", None, hint, path="--ops"))
        elif name in ("input", "weight", "fill", "proj") or not ops[name].inputs:
            problems.append(Diagnostic(f"`{name}` has no operands", None, "terms have leaves", path="--ops"))
        elif name != "slice" and (odd := next((a for a in ops[name].attrs if _odd(a)), None)):
            problems.append(unsupported(ops[name], odd))
        found[name] = None
    if not found:
        problems.append(Diagnostic("no operators are named", None, "name some: --ops matmul,ewadd,relu"))
    if problems:
        raise TsrError(problems)
    return Menu(ops, tuple(found), tuple(numbers))


def _is_function(decl: OpDecl) -> bool:
    """Whether an operator has one operand and no attributes, and keeps the shape."""
    if len(decl.inputs) != 1 or decl.attrs or decl.inputs[0].kind != "one" or len(decl.shapes) > 1:
        return False
    (name,) = (p.name for p in decl.inputs)
    match decl.shapes:
        case (ex.Call("shape", (ex.Name(id),)),):
            return id == name
    return False


def _odd(a: AttrDecl) -> bool:
    return not a.choices and a.type in ("string", "dtype", "ints") and a.length not in UNUSUAL


def _permutations(rank: int) -> tuple[tuple[int, ...], ...]:
    if rank > ALL_PERMUTATIONS:
        return (tuple(range(rank)), *(p for p in LAYOUTS if len(p) == rank))
    return tuple(permutations(range(rank)))


def _slices(t: TensorType, dims: Sequence[int]) -> Iterable[dict[str, AttrValue]]:
    """All of a tensor, and both parts where it is cut as a leaf could end."""
    for axis, size in enumerate(t.shape):
        yield {"axis": axis, "start": 0, "stop": size}
        for cut in dict.fromkeys(dims):
            if 0 < cut < size:
                yield {"axis": axis, "start": 0, "stop": cut}
                yield {"axis": axis, "start": cut, "stop": size}
