"""Arrays, functions of arrays and attributes, and the arrays that stand for tensors of each element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tensat_dl.core.graph import INTEGERS, ITEMSIZE

#: An array of any element type. The element type says which numbers are meant: floats round, integer types
#: are machine integers, and ``object`` arrays hold exact numbers:
#: Python integers, fractions, elements of a field.
Array: TypeAlias = npt.NDArray[Any]

#: The value of one application. It is given arrays in argument order, an absent optional argument being left out, and
#: every attribute of the operator by name: whoever built the node filled in the defaults.
Semantics: TypeAlias = Callable[..., Array]


def widened(dtype: str, to: str) -> bool:
    """Whether a cast changes no number of an integer type, since the new type has them all."""
    if dtype not in INTEGERS or to not in INTEGERS:
        return False
    (least, most), (first, last) = INTEGERS[dtype], INTEGERS[to]
    return first <= least and most <= last


def wrapped(x: Array, to: str) -> Array:
    """Numbers as an integer type has them: fractions are dropped, and whole parts wrap around. Infinity and NaN
    become 0."""
    least, most = INTEGERS[to]
    if x.dtype == object:
        return np.asarray(
            np.frompyfunc(lambda v: (int(v) - least) % (most - least + 1) + least, 1, 1)(x), np.int64
        )
    if x.dtype.kind == "f":
        whole = np.trunc(np.where(np.isfinite(x), x, 0), dtype=np.float64)
        whole = np.fmod(whole, 2.0**64)  # exact, and so are these sums: such numbers have 53 digits
        whole = np.where(whole >= 2.0**63, whole - 2.0**64, whole)
        x = np.where(whole < -(2.0**63), whole + 2.0**64, whole).astype(np.int64)
    x = x.astype(np.int64)
    return x if to == "i64" else np.asarray((x - least) % (most - least + 1) + least)


def computed_in(dtype: str) -> type[np.generic]:
    """The NumPy type that stands for an element type in reference computations: the widest of its kind.

    Floats of every width are computed in float64, so that two graphs that differ in rounding alone are seen
    to agree; integers of every width in int64; booleans stay booleans.
    """
    if dtype not in ITEMSIZE:
        raise ValueError(f"unknown element type {dtype}")
    if dtype == "bool":
        return np.bool_
    return np.int64 if dtype[0] in "iu" else np.float64
