"""Unknowns for tests: types and attributes of which only the rank is known, and what they are in one case."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tensat_dl.core.graph import TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Opaque
from tensat_dl.ops.table import AttrDecl
from tensat_dl.ops.values import FUNCTIONS, SymType


class Case:
    """What each unknown is: integers by atom, other values by their opaque name."""

    def __init__(self) -> None:
        self.integers: dict[Atom, int] = {}
        self.values: dict[Opaque, Any] = {}

    def integer(self, value: int, *atom: Any) -> sym.Int:
        self.integers[atom] = value
        return sym.atom(*atom)

    def value(self, value: Any, *atom: Any) -> Opaque:
        self.values[Opaque(atom)] = value
        return Opaque(atom)

    # ---- from concrete to unknown, as rules see it -----------------------------------------------------

    def type(self, name: str, t: TensorType, rng: random.Random, known: float = 0.0) -> SymType:
        """A type with unknown element type and dimensions; each is left as it is with probability ``known``."""
        dims = [d if rng.random() < known else self.integer(d, "dim", name, i) for i, d in enumerate(t.shape)]
        dtype = t.dtype if rng.random() < known else self.value(t.dtype, "dtype", name)
        return SymType(dtype, tuple(dims))

    def attribute(self, a: AttrDecl, value: Any) -> Any:
        """An unknown attribute. Axes and lengths of lists are known, as rules are compiled for each."""
        if a.type == "axis":
            return value
        if isinstance(value, tuple):
            kind = "attr" if a.length is not None else "elem"
            return tuple(self.integer(v, kind, a.name, i) for i, v in enumerate(value))
        if a.type == "int":
            return self.integer(value, "attr", a.name)
        return self.value(value, "attr", a.name)

    # ---- and back --------------------------------------------------------------------------------------

    def of(self, value: Any) -> Any:
        """The value in this case. Raises `EvaluationError` where there is none."""
        return self.values[value] if isinstance(value, Opaque) else sym.substitute(value, self.integers)

    def holds(self, c: Bool) -> bool:
        if isinstance(c, bool):
            return c
        match c.kind:
            case "eq":
                return bool(self.of(c.args[0]) == 0)
            case "ne":
                return bool(self.of(c.args[0]) != 0)
            case "le":
                return bool(self.of(c.args[0]) <= 0)
            case "same":
                return bool(self.of(c.args[0]) == self.of(c.args[1]))
            case "holds":
                return FUNCTIONS["holds"].apply(*map(self.of, c.args)) is True
            case "and":
                return all(map(self.holds, c.args))
            case "or":
                return any(map(self.holds, c.args))
            case "not":
                return not self.holds(c.args[0])
        raise AssertionError(c)

    def all_hold(self, conditions: Iterable[Bool]) -> bool:
        return all(map(self.holds, conditions))
