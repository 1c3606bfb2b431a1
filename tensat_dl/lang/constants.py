"""Constants as elements of tensors: which numbers an element type has."""

from __future__ import annotations

from math import isinf

from tensat_dl.core.diagnostics import error
from tensat_dl.core.source import Span
from tensat_dl.core.types import INTEGERS

#: What is rounded to infinity in floating-point types, from there on, and the greatest element as messages have it.
TOO_LARGE = {
    "f16": ((2 - 2**-11) * 2.0**15, "65504"),
    "bf16": ((2 - 2**-8) * 2.0**127, "3.39e38"),
    "f32": ((2 - 2**-24) * 2.0**127, "3.4e38"),
}


def as_float(value: float, at: Span) -> float:
    """A number as the float that constants are held as. Raises `TsrError` if no float is as large, or if it is an
    integer that would become another one."""
    try:
        found = float(value)
    except OverflowError:
        raise error(at, "the number is too large for a float") from None
    if found != value and isinstance(value, int):
        hint = f"integers beyond 2^53 are not all there; the nearest one is {int(found)}"
        raise error(at, f"the integer {value} can't be held exactly: constants are float64", hint)
    return found


def check_range(value: float, dtype: str, shown: str, at: Span) -> None:
    """Raises `TsrError` if an element type has no number as large, or as small; ``shown`` is the tensor's type."""
    if dtype in INTEGERS:
        least, greatest = INTEGERS[dtype]
        if not least <= value <= greatest:
            hint = f"elements of type {dtype} go from {least} to {greatest}"
            raise error(at, f"{value:.17g} can't be an element of {shown}", hint)
    elif dtype in TOO_LARGE and not isinf(value):
        limit, greatest_text = TOO_LARGE[dtype]
        if abs(value) >= limit:
            hint = f"elements of type {dtype} go up to {greatest_text}"
            raise error(at, f"{value:.17g} can't be an element of {shown}", hint)
