"""Dimensions of a model's inputs that its file leaves open, and the sizes that a run takes for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from tensat_dl.core.diagnostics import did_you_mean
from tensat_dl.onnx.reading import failed

#: What exporters write for a dimension that has no name.
_NAMELESS = (None, "", "?", "-1", "None", "unk")


def dynamic_dims(model: ir.Model) -> dict[str, list[str]]:
    """The open dimensions by name, each with the inputs that have it. One without a name is called by the input and
    its place, as in ``x.0``."""
    found: dict[str, list[str]] = {}
    for value in model.graph.inputs:
        for i, d in enumerate(value.shape or ()):
            if is_open(d):
                found.setdefault(dim_name(value, i, d), []).append(str(value.name))
    return found


def is_open(d: int | ir.SymbolicDim) -> bool:
    """Whether a dimension's size is not stated. (Some exporters write -1.)"""
    return not isinstance(d, int) or d < 0


def dim_name(value: ir.Value, i: int, d: int | ir.SymbolicDim) -> str:
    """What ``--dim`` calls dimension ``i`` of an input, which is ``d``."""
    named = not isinstance(d, int) and d.value not in _NAMELESS
    return str(d) if named else f"{value.name}.{i}"


def bind(path: str, model: ir.Model, given: Mapping[str, int]) -> dict[str, int]:
    """A size for every open dimension. Raises `TsrError` for one that has none, and for sizes of no dimension."""
    dims = dynamic_dims(model)
    for name in given:
        if name not in dims:
            known = f"its open dimensions are {', '.join(dims)}" if dims else "all its dimensions are known"
            raise failed(path, f"no dimension `{name}` to bind", did_you_mean(name, dims) or known)
    missing = [name for name in dims if name not in given]
    if missing:
        raise failed(path, f"{_listed(missing, dims)} not known", f"give {_options(missing)}")
    return {name: given[name] for name in dims}


def _listed(missing: list[str], dims: Mapping[str, list[str]]) -> str:
    """As in ``the sizes of batch (of x, y) and time (of x) are``."""
    named = [f"{name} (of {', '.join(dict.fromkeys(dims[name]))})" for name in missing]
    if len(named) == 1:
        return f"the size of dimension {named[0]} is"
    return f"the sizes of dimensions {', '.join(named[:-1])} and {named[-1]} are"


def _options(missing: Iterable[str]) -> str:
    return "them, such as " + " ".join(f"--dim {name}=1" for name in missing)
