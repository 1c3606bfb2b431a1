"""What comes of comparing two graphs: a status, the level that decided, and a difference if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from tensat_dl.core.graph import attr_text
from tensat_dl.ops.semantics.arrays import Array

Status = Literal["equal", "different", "unsupported"]
Level = Literal["modular", "integer", "float"]


@dataclass(frozen=True, slots=True)
class Difference:
    """An element of an output in which two graphs differ, on these inputs and weights.

    At the modular level all numbers are residues modulo ``modulus``.
    """

    output: str
    index: tuple[int, ...]
    before: int | float | Fraction
    after: int | float | Fraction
    values: Mapping[str, Array]
    modulus: int | None = None

    def __str__(self) -> str:
        numbers = "" if self.modulus is None else f", modulo {self.modulus}, on random integers"
        element = f"element {attr_text(self.index)} of output {self.output}"
        return f"{element} is {self.before} before and {self.after} after{numbers}"


@dataclass(frozen=True, slots=True)
class Exact:
    """The result of comparing two graphs, and the level that decided.

    ``log2_error`` bounds the probability that graphs which differ would be found equal, as its logarithm to base 2;
    it is None where none can be stated. ``reason`` then says why; it also says why graphs are "unsupported" or
    differ without a ``difference``. ``stand_ins`` names the functions that random ones stood in for on the level that
    decided, opaque operators included; for graphs that differ also constants that are rounded, or, without any of
    these, "bool" if residues stood in for truth values. ``compared`` has, for each comparison of elements in both
    graphs, the operator and the truth values that it came to in exact numbers; for each ``select`` those of its
    condition where its operands differ.
    """

    status: Status
    level: Level
    log2_error: float | None = None
    difference: Difference | None = None
    reason: str = ""
    stand_ins: tuple[str, ...] = ()
    compared: tuple[tuple[str, frozenset[bool]], ...] = ()


def number(element: int | Fraction | np.generic) -> int | Fraction:
    """An element of an array as a number of Python's."""
    return element if isinstance(element, int | Fraction) else int(element)
