"""Constants: operators without operands. Float types give float64 arrays, integer types int64 arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensat_dl.ops.semantics.types import (
    Array,
    Attributes,
    Semantics,
    computed_in,
    integer,
    integers,
    number,
    text,
)


def fill(_: Sequence[Array], attrs: Attributes) -> Array:
    """``shape``, every element ``value``. An integer type takes the value's whole part."""
    return np.full(integers(attrs, "shape"), number(attrs, "value")).astype(computed_in(text(attrs, "dtype")))


def iota(_: Sequence[Array], attrs: Attributes) -> Array:
    """``shape``, every element its place along ``axis``."""
    shape, axis = integers(attrs, "shape"), integer(attrs, "axis")
    places = np.arange(shape[axis], dtype=computed_in(text(attrs, "dtype")))
    along = [n if i == axis else 1 for i, n in enumerate(shape)]
    return np.broadcast_to(places.reshape(along), shape).copy()


def eye(_: Sequence[Array], attrs: Attributes) -> Array:
    """[n, n]: the identity matrix."""
    return np.eye(integer(attrs, "n"), dtype=computed_in(text(attrs, "dtype")))


def conv_identity(_: Sequence[Array], attrs: Attributes) -> Array:
    """[channels, channels / groups, kh, kw]: convolution with it copies the input.

    Output channel o belongs to group o // (channels / groups), whose inputs are numbered from 0 again:
    channel o's own input is number o % (channels / groups).
    """
    channels, groups = integer(attrs, "channels"), integer(attrs, "groups")
    kh, kw = integers(attrs, "kernel")
    inputs = channels // groups
    kernel = np.zeros((channels, inputs, kh, kw), computed_in(text(attrs, "dtype")))
    outputs = np.arange(channels)
    kernel[outputs, outputs % inputs, (kh - 1) // 2, (kw - 1) // 2] = 1
    return kernel


def conv_average(_: Sequence[Array], attrs: Attributes) -> Array:
    """[channels, 1, kh, kw]: every element 1 / (kh * kw)."""
    kh, kw = integers(attrs, "kernel")
    shape = (integer(attrs, "channels"), 1, kh, kw)
    return np.full(shape, 1 / (kh * kw)).astype(computed_in(text(attrs, "dtype")))


SEMANTICS: dict[str, Semantics] = {
    "fill": fill,
    "iota": iota,
    "eye": eye,
    "conv_identity": conv_identity,
    "conv_average": conv_average,
}
