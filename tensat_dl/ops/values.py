"""What a name may stand for besides numbers and lists: types, and what is missing, failed or not yet known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.source import Span
from tensat_dl.core.types import TensorType
from tensat_dl.ops.symbolic import Condition, Int, Opaque, Sym


@dataclass(frozen=True, slots=True)
class SymType:
    """A tensor type of known rank whose element type and dimensions may be unknown."""

    dtype: str | Opaque
    shape: tuple[Int, ...]


AnyType = TensorType | SymType


class Absent(Exception):
    """An optional tensor that is not there was used."""

    def __init__(self, name: str, span: Span) -> None:
        super().__init__(name)
        self.name = name
        self.span = span


class Unknown:
    """The value of a name whose statement failed. Whatever uses it fails too, and stays silent about it."""


class AlreadyReported(Exception):
    """Something failed for a reason that is reported already."""


class Lazy:
    """A name whose expression is evaluated when it is first used."""

    def __init__(self, expr: ex.Expr) -> None:
        self.expr = expr


Env = dict[str, Any]


def describe(value: Any) -> str:
    """What kind of thing a value is, for messages."""
    match value:
        case TensorType() | SymType():
            return "a tensor"
        case dict():
            return "a list of tensors"
        case tuple():
            return "a list"
        case bool() | Condition():
            return "a truth value"
        case int() | Sym():
            return "an integer"
        case float():
            return "a float"
        case str():
            return f"`{value}`"
        case Opaque():
            return "an unknown value"
    return "something else"


def is_int(value: Any) -> bool:
    """Whether a value is an integer, known or not."""
    return isinstance(value, int | Sym) and not isinstance(value, bool)
