"""Runs two models in ONNX Runtime on the same random inputs, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from tensat_dl.onnx.dims import dim_name, is_open
from tensat_dl.ops.semantics.types import Array

#: The largest difference that is put down to rounding, in units of the largest magnitude of an output.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-2, "bfloat16": 5e-2}
#: How many times as far as ONNX Runtime's own optimizations move the original's outputs they may be moved.
SLACK = 4.0

Status = Literal["agrees", "differs", "not compared"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the comparison showed. ``max_rel`` is the largest difference over the largest magnitude of its output."""

    status: Status
    max_rel: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Input:
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | ir.SymbolicDim, ...]  #: open dimensions by name


class Incomparable(Exception):
    """The models can't be compared; the message says why."""


def agreement(model: ir.Model, before: str, after: str, dims: Mapping[str, int], seed: int = 0) -> Agreement:
    """Compares the models in two files. ``model`` is the first one. It is run at ``dims``, and at other sizes of each
    open dimension, at which the second has to work as well."""
    if (wrong := _invalid(after)) and not _invalid(before):
        return Agreement("differs", 0.0, f"the optimized model is not valid: {wrong}")
    try:
        inputs = _inputs(model)
        first, plain = _session(before), _session(before, optimized=False)
    except Incomparable as e:
        return Agreement("not compared", 0.0, str(e))
    try:
        second = _session(after)
    except Incomparable as e:
        return Agreement("differs", 0.0, f"the optimized model does not load: {e}")
    try:
        found = _compare(first, plain, second, inputs, dims, seed)
    except Incomparable as e:
        return Agreement("not compared", 0.0, f"the original does not run: {e}")
    if found.status != "agrees":
        return found
    for name, size in dims.items():
        for other in (2 * size, size + 1, 3 * size):
            try:
                elsewhere = _compare(first, plain, second, inputs, {**dims, name: other}, seed)
            except Incomparable:
                continue  # the original does not work there either
            if elsewhere.status == "differs":
                what = f"it is right for {name} = {size} only: with {name} = {other} {elsewhere.message}"
                return Agreement("differs", found.max_rel, what)
            break
    return found


def accepted_inputs(model: ir.Model, path: str, dims: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Random inputs on which a model runs. Raises `Incomparable` if there are none."""
    return _accepted(_session(path), _inputs(model), dims, seed)[0]


def _invalid(path: str) -> str:
    """What ONNX's own checker finds wrong with a model."""
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as e:
        return _line(e)
    return ""


def _compare(
    first: Any, plain: Any, second: Any, inputs: Sequence[_Input], dims: Mapping[str, int], seed: int
) -> Agreement:
    """Raises `Incomparable` if the first model does not run."""
    values, expected = _accepted(first, inputs, dims, seed)
    try:
        actual = second.run(None, values)
    except Exception as e:
        return Agreement("differs", 0.0, f"the optimized model does not run: {_line(e)}")
    names = [o.name for o in first.get_outputs()]
    errors = [_error(name, x, y) for name, x, y in zip(names, expected, actual, strict=True)]
    if any(error > limit for error, limit in errors):  # perhaps the original is as unsteady
        own = [
            _error(name, x, y)[0] for name, x, y in zip(names, expected, plain.run(None, values), strict=True)
        ]
        for name, (error, limit), drift in zip(names, errors, own, strict=True):
            if error > max(limit, SLACK * drift):
                message = f"output {name} differs by {error:.1e}, more than {max(limit, SLACK * drift):.1e}"
                return Agreement("differs", error, message)
    return Agreement("agrees", max((error for error, _ in errors), default=0.0))


def _accepted(
    session: Any, inputs: Sequence[_Input], dims: Mapping[str, int], seed: int
) -> tuple[dict[str, Array], list[Any]]:
    """Inputs that a model accepts, and its outputs. Raises `Incomparable`."""
    reason = "it has no inputs that can be drawn"
    for draw in _STYLES:
        generator = np.random.default_rng(seed)
        values = {i.name: _draw(i, dims, generator, draw) for i in inputs}
        try:
            return values, session.run(None, values)
        except Exception as e:  # whatever it does not like about these inputs
            reason = _line(e)
    raise Incomparable(reason)


def _error(name: str, x: Any, y: Any) -> tuple[float, float]:
    """The relative difference of one output and what is tolerated; of integers the share that differs, and 0."""
    a, b = np.asarray(x), np.asarray(y)
    if isinstance(x, list | dict) or (a.dtype.kind not in "fiub" and a.dtype.name not in TOLERANCE):
        return (0.0 if str(x) == str(y) else 1.0), 0.0
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf"), 0.0
    if a.size == 0:
        return 0.0, 0.0
    if a.dtype.name not in TOLERANCE:
        return float((a != b).mean()), 0.0
    with np.errstate(all="ignore"):
        p, q = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(p)
        if not np.array_equal(np.where(finite, 0, p), np.where(np.isfinite(q), 0, q), equal_nan=True):
            return float("inf"), 0.0
        p, q = p[finite], q[finite]
        norm = max(float(np.abs(p).max(initial=0)), float(np.abs(q).max(initial=0)))
        error = float(np.abs(p - q).max(initial=0))
    return (error / norm if norm else 0.0), TOLERANCE[a.dtype.name]


def _session(path: str, optimized: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        raise Incomparable(f"ONNX Runtime does not load it: {_line(e)}") from None


def _inputs(model: ir.Model) -> list[_Input]:
    """Raises `Incomparable` for inputs that can't be drawn."""
    found = []
    for value in model.graph.inputs:
        if value.is_initializer():
            continue  # it has a value
        if value.dtype is None or value.shape is None or not isinstance(value.type, ir.TensorType):
            raise Incomparable(f"the type of input {value.name} is not known")
        dtype = np.dtype(value.dtype.numpy())
        if dtype.kind not in "fiub" and dtype.name not in TOLERANCE:
            raise Incomparable(f"input {value.name} is no tensor of numbers")
        shape = tuple(dim_name(value, i, d) if is_open(d) else d for i, d in enumerate(value.shape))
        found.append(_Input(str(value.name), dtype, shape))
    return found


Style = Callable[[np.random.Generator, tuple[int, ...]], Array]
#: How whole numbers are drawn: in turn, until the original accepts them (they may be indices).
_STYLES: tuple[Style, ...] = (
    lambda g, shape: np.asarray(g.integers(0, 100, shape)),
    lambda g, shape: np.asarray(g.integers(0, 2, shape)),
    lambda g, shape: np.ones(shape, np.int64),
    lambda g, shape: np.zeros(shape, np.int64),
)


def _draw(i: _Input, dims: Mapping[str, int], g: np.random.Generator, whole: Style) -> Array:
    shape = tuple(d if isinstance(d, int) else dims[str(d)] for d in i.shape)
    if i.dtype.kind in "iu":
        return whole(g, shape).astype(i.dtype)
    if i.dtype.kind == "b":
        return np.asarray(g.integers(0, 2, shape)).astype(bool)
    return np.asarray(g.standard_normal(shape)).astype(i.dtype)


def _line(e: Exception) -> str:
    """The first line of a message that says something."""
    lines: Iterator[str] = (line.strip() for line in str(e).splitlines())
    return next((line[:300] for line in lines if line), type(e).__name__)
