"""What a user says about the sizes of an open dimension.

In text it is a size (``128``), a range (``1..512``), a mix of sizes (``32,128,512``), or sizes in a range
(``1..512=32,128``). Imports nothing heavy: ``--help`` comes through here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

#: The largest size of a dimension.
LARGEST = 2**31 - 1
#: The forms, as messages list them.
FORMS = "a size (128), a range (1..512), several sizes (32,128,512), or sizes in a range (1..512=32,128)"


@dataclass(frozen=True, slots=True)
class DimSizes:
    """The sizes of an open dimension: an answer has to hold from ``low`` to ``high``, both included, and without a
    ``high`` everywhere. It is optimized for ``sizes``, which ascend; if there are none, a typical one is chosen."""

    sizes: tuple[int, ...] = ()
    low: int = 1
    high: int | None = None

    @classmethod
    def of(cls, value: object) -> DimSizes:
        """What a text says, a number, a range of Python, or a sequence of numbers. Raises TypeError, ValueError."""
        if isinstance(value, DimSizes):
            return value
        if isinstance(value, str):
            return cls._read(value)
        if isinstance(value, range):
            if value.step != 1 or not value:
                raise ValueError(f"{value} is no range of sizes: its step is 1, and it is not empty")
            return cls._checked((), value[0], value[-1])
        given: list[Any] = list(value) if isinstance(value, Sequence) else [value]
        if not all(isinstance(n, Integral) and not isinstance(n, bool) for n in given):
            raise TypeError(f"{value!r} is neither a size, nor a range, nor a list of sizes")
        return cls._checked(tuple(int(n) for n in given), 1, None)

    @classmethod
    def _read(cls, text: str) -> DimSizes:
        ends, equals, listed = text.partition("=") if ".." in text else ("", "=", text)
        between = re.fullmatch(r"(\d+)\.\.(\d+)", ends, re.ASCII) if ends else None
        words = [word.strip() for word in listed.split(",")] if equals else []
        if (ends and between is None) or not all(re.fullmatch(r"\d+", w, re.ASCII) for w in words):
            raise ValueError(f"{text!r} is not {FORMS}")
        low, high = (1, None) if between is None else map(int, between.groups())
        return cls._checked(tuple(map(int, words)), low, high)

    @classmethod
    def _checked(cls, sizes: tuple[int, ...], low: int, high: int | None) -> DimSizes:
        if high is None and not sizes:
            raise ValueError("there is no size")
        for n in (*sizes, low, *([] if high is None else [high])):
            if not 0 < n <= LARGEST:
                raise ValueError(f"{n} is no size: sizes are from 1 to {LARGEST:,}")
        if high is not None and high < low:
            raise ValueError(f"the range {low}..{high} is empty: the smaller size comes first")
        for a, b in pairwise(sizes):
            if a >= b:
                raise ValueError(
                    f"the size {a} is there twice" if a == b else f"the sizes {a},{b} do not ascend"
                )
        found = cls(sizes, low, high)
        for n in sizes:
            if n not in found:
                raise ValueError(f"the size {n} is not in the range {found.range}")
        return found

    def __contains__(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high)

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.sizes))
        return "=".join(part for part in (self.range, sizes) if part)

    @property
    def range(self) -> str:
        """The range in text; "" if all sizes are in it."""
        return "" if self.high is None else f"{self.low}..{self.high}"

    @property
    def fixed(self) -> bool:
        """Whether there is one size only."""
        return self.low == self.high

    @property
    def mixed(self) -> bool:
        """Whether it is optimized for several sizes."""
        return len(self.sizes) > 1

    def nearest(self, size: int) -> int:
        """The size in the range that is the nearest."""
        return max(self.low, size if self.high is None else min(size, self.high))


def dim_sizes(given: Mapping[str, object]) -> dict[str, DimSizes]:
    """What is said about each dimension, by name. Raises TypeError, ValueError, which name the dimension."""
    found: dict[str, DimSizes] = {}
    for name, value in given.items():
        try:
            found[name] = DimSizes.of(value)
        except (TypeError, ValueError) as e:
            raise type(e)(f"dims[{name!r}]: {e}") from None
    return found


def mixed_dim(dims: Mapping[str, DimSizes]) -> str:
    """The dimension that has several sizes, for buckets. Raises ValueError if there is none."""
    found = [name for name, d in dims.items() if d.mixed]
    if not found:
        raise ValueError(
            "buckets need several sizes of a dimension of an ONNX model, such as seq=1..512=32,128,512"
        )
    return found[0]


def ranges_in_text(dims: Mapping[str, DimSizes]) -> str:
    """The ranges of dimensions that have one, as in ``batch = 1, seq = 1..512``."""
    found = {name: str(d.low) if d.fixed else d.range for name, d in dims.items() if d.high is not None}
    return ", ".join(f"{name} = {text}" for name, text in found.items())
