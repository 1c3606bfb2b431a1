"""Pickles of values with thousands of frozen dataclasses.

A frozen dataclass with slots is pickled, and read back, by a loop over the declarations of its fields. Here its
pickle is a call of the class, which takes two thirds of the time both ways. Any unpickler reads it.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import Any


def pickled(value: Any) -> bytes:
    """The pickle of a value."""
    file = BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def unpickled(data: bytes) -> Any:
    """The value of a pickle; the garbage collector would look at its parts again and again while it is read."""
    with _without_collector():
        return pickle.loads(data)


class _Pickler(ForkingPickler):
    """A pickler, also of what only processes of one machine can exchange."""

    def reducer_override(self, obj: Any) -> Any:
        cls: Any = type(obj)
        values = _values(cls)
        return NotImplemented if values is None else (cls, values(obj))


@cache
def _values(cls: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """A function from an object to the arguments that make another; None for a class that is pickled as usual."""
    if not is_dataclass(cls) or "__slots__" not in vars(cls) or cls.__reduce__ is not object.__reduce__:
        return None
    own = fields(cls)
    if not own or not all(f.init and not f.kw_only for f in own):
        return None
    get = attrgetter(*(f.name for f in own))
    return get if len(own) > 1 else lambda value: (get(value),)


@contextmanager
def _without_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
