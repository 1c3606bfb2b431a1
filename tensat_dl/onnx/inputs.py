"""The inputs of a model: open dimensions and their sizes, random inputs that it accepts, inputs from a user's
file."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from tensat_dl.core.words import did_you_mean, plural
from tensat_dl.lang.load import readable
from tensat_dl.onnx.model_files import failed
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.sizes.dim_sizes import DimSizes

#: Element types that are floats, but none of NumPy's own.
EXTENDED = ("bfloat16",)
#: What exporters write for a dimension that has no name.
_NAMELESS = (None, "", "?", "-1", "None", "unk")


# ---- open dimensions -------------------------------------------------------------------------------------


def dims_of(value: ir.Value) -> tuple[int | str, ...]:
    """The dimensions of a value; open ones by name. One without a name is called by the value and its place, as in
    ``x.0``. (Some exporters write -1 for a size that is not stated.)"""
    found: list[int | str] = []
    for i, d in enumerate(value.shape or ()):
        if isinstance(d, int):
            found.append(d if d >= 0 else f"{value.name}.{i}")
        else:
            found.append(f"{value.name}.{i}" if d.value in _NAMELESS else str(d))
    return tuple(found)


def open_dims(model: ir.Model) -> list[str]:
    """The names of the dimensions that a model leaves open."""
    return list(dict.fromkeys(d for v in model.graph.inputs for d in dims_of(v) if isinstance(d, str)))


# ---- inputs ----------------------------------------------------------------------------------------------


class Undrawable(Exception):
    """There are no random values for an input; the message says why."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input that has no value of its own. Open dimensions have their names as sizes."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    def at(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape at these sizes of open dimensions."""
        return tuple(d if isinstance(d, int) else dims[d] for d in self.shape)


def inputs_of(model: ir.Model) -> list[ModelInput]:
    """The inputs that a caller has to give. Raises `Undrawable` for one that is no tensor of numbers."""
    found = []
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        if value.dtype is None or value.shape is None or not isinstance(value.type, ir.TensorType):
            raise Undrawable(f"the type of input {value.name} is not known")
        dtype = np.dtype(value.dtype.numpy())
        if dtype.kind not in "fiub" and dtype.name not in EXTENDED:
            raise Undrawable(f"input {value.name} is no tensor of numbers")
        found.append(ModelInput(str(value.name), dtype, dims_of(value)))
    return found


# ---- random ones -----------------------------------------------------------------------------------------

Style = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _below_100(g: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers below 100, as indices and counts are. A short list may be a shape, or the number of repetitions along
    each axis: there such numbers would take more than the memory."""
    few = len(shape) <= 1 and math.prod(shape) <= 8
    return np.asarray(g.integers(0, 8 if few else 100, shape))


#: How whole numbers are drawn: in turn, until the model accepts them (they may be indices).
_STYLES: tuple[Style, ...] = (
    _below_100,
    lambda g, shape: np.asarray(g.integers(0, 2, shape)),
    lambda g, shape: np.ones(shape, np.int64),
    lambda g, shape: np.zeros(shape, np.int64),
)


def drawn(inputs: Sequence[ModelInput], dims: Mapping[str, int], seed: int) -> Iterator[dict[str, Array]]:
    """Random inputs at these sizes of open dimensions, of one kind after the other. Kinds differ in whole numbers
    alone."""
    whole = any(i.dtype.kind in "iu" for i in inputs)
    for style in _STYLES if whole else _STYLES[:1]:
        generator = np.random.default_rng(seed)
        yield {i.name: _draw(i, dims, generator, style) for i in inputs}


def _draw(i: ModelInput, dims: Mapping[str, int], g: np.random.Generator, whole: Style) -> Array:
    shape = i.at(dims)
    if i.dtype.kind in "iu":
        return whole(g, shape).astype(i.dtype)
    if i.dtype.kind == "b":
        return np.asarray(g.integers(0, 2, shape)).astype(bool)
    return np.asarray(g.standard_normal(shape)).astype(i.dtype)


# ---- those of a file -------------------------------------------------------------------------------------


def read_inputs(path: str, model: ir.Model) -> dict[str, Array]:
    """The arrays of an .npz file, one for each input of the model. Raises `TsrError`, OSError."""
    try:
        wanted = {i.name: i for i in inputs_of(model)}
    except Undrawable as e:
        raise failed(path, f"inputs can't be given in a file: {e}") from None
    arrays = _arrays(path, wanted)
    for name in arrays:
        if name not in wanted:
            hint = did_you_mean(name, wanted) or f"its inputs are {', '.join(wanted) or 'none'}"
            raise failed(path, f"the model has no input `{name}`", hint)
    missing = [i for name, i in wanted.items() if name not in arrays]
    if missing:
        listed = ", ".join(f"`{i.name}` : {i}" for i in missing)
        raise failed(path, f"no value for the {plural(len(missing), 'input')} {listed}", _example(wanted))
    for name, i in wanted.items():
        array = arrays[name]
        if array.dtype != i.dtype:
            hint = f"convert it: {name}.astype(np.{i.dtype.name})"
            raise failed(path, f"`{name}` is {array.dtype.name}, and the model takes {i}", hint)
        fits = array.ndim == len(i.shape) and all(
            isinstance(d, str) or d == n for d, n in zip(i.shape, array.shape, strict=True)
        )
        if not fits:
            raise failed(path, f"`{name}` has the shape {list(array.shape)}, and the model takes {i}")
    return {name: arrays[name] for name in wanted}


def sizes(
    path: str, model: ir.Model, arrays: Mapping[str, Array], stated: Mapping[str, DimSizes]
) -> dict[str, DimSizes]:
    """What is ``stated`` of open dimensions, with the sizes that the arrays have. Raises `TsrError` if they
    contradict one another."""
    found = dict(stated)
    origin = {name: "--dim" for name, d in stated.items() if d.sizes}
    for i in inputs_of(model):
        for d, n in zip(i.shape, arrays[i.name].shape, strict=True):
            if not isinstance(d, str):
                continue
            known = found.get(d, DimSizes())
            if n == 0:
                raise failed(path, f"{d} is 0 in `{i.name}`", "models are optimized for sizes of 1 and more")
            if n not in known:
                message = f"{d} is {n} in `{i.name}`, which is not in the range {known.range}"
                raise failed(path, message, "give a range that has it")
            if not known.sizes:
                known = found[d] = replace(known, sizes=(n,))
            if known.sizes != (n,):
                others = ", ".join(map(str, known.sizes))
                message = f"{d} is {n} in `{i.name}`, and {others} by {origin[d]}"
                raise failed(path, message, "give each dimension one size")
            origin.setdefault(d, f"`{i.name}`")
    return found


def _arrays(path: str, wanted: Mapping[str, ModelInput]) -> dict[str, Array]:
    message = "this is not an .npz file of numbers, or it is damaged"
    with readable(path):
        try:
            with open(path, "rb") as file:
                loaded = np.load(file, allow_pickle=False)
                if isinstance(loaded, np.lib.npyio.NpzFile):
                    return {name: loaded[name] for name in loaded.files}
            message = "this is a single array, and an .npz file has one for each input"
        except (ValueError, EOFError, zipfile.BadZipFile):
            pass
    raise failed(path, message, _example(wanted))


def _example(wanted: Mapping[str, ModelInput]) -> str:
    given = ", ".join(
        f"**{{{name!r}: array}}" if not name.isidentifier() else f"{name}=array" for name in wanted
    )
    return f"write it with np.savez('data.npz', {given})"
