"""Applies any operator of the library, those that are compositions included."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.semantics import semantics_of

from .applying import TABLE

_KNOWN = semantics_of(TABLE)


def value(op: str, *arrays: np.ndarray[Any, Any], **attrs: Any) -> np.ndarray[Any, Any]:
    return np.asarray(_KNOWN[op](*arrays, **{**defaults(TABLE[op]), **attrs}))
