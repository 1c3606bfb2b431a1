"""Ranges of a model's open dimensions: where an answer has to hold. The written model records them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from tensat_dl.core.words import did_you_mean
from tensat_dl.onnx.inputs import dims_of, open_dims
from tensat_dl.onnx.model_files import failed
from tensat_dl.sizes.dim_sizes import DimSizes

#: Under this name a written model has the ranges that it is for, in JSON.
METADATA = "tensat_dl.sizes"


def checked_dims(path: str, model: ir.Model, asked: Mapping[str, DimSizes]) -> dict[str, DimSizes]:
    """What is said of a model's open dimensions, with the ranges that an earlier run recorded in it. Raises
    `TsrError` for a dimension that the model does not have, for several dimensions with several sizes, and for sizes
    that the model is not for."""
    dims = open_dims(model)
    for name in asked:
        if name not in dims:
            known = f"its open dimensions are {', '.join(dims)}" if dims else "all its dimensions are known"
            raise failed(path, f"no dimension `{name}` to bind", did_you_mean(name, dims) or known)
    several = [name for name, d in asked.items() if d.mixed]
    if len(several) > 1:
        message = f"{' and '.join(several)} have several sizes each"
        raise failed(path, message, "give several sizes to one dimension at most")
    found = dict(asked)
    for name, recorded in _recorded(model).items():
        if name not in dims:
            continue
        d = asked.get(name, recorded)
        outside = [n for n in (*d.sizes, d.low, d.high or d.low) if n not in recorded]
        if d.high is None:
            d = replace(d, low=recorded.low, high=recorded.high)
            outside = [n for n in d.sizes if n not in recorded]
        if outside:
            message = (
                f"the size {outside[0]} of {name} is not in the range {recorded.range} that the model is for"
            )
            raise failed(path, message, "optimize the model that it was made from")
        found[name] = d
    return found


def complete(asked: DimSizes | None, size: int) -> DimSizes:
    """What is asked of a dimension, with the size that was chosen for it, if none was given."""
    found = asked or DimSizes()
    return found if found.sizes else replace(found, sizes=(size,))


def another(d: DimSizes, size: int) -> int | None:
    """Another size of a dimension, at which shapes are examined: twice as large, or else one in the range. None if
    there is no other, and for a dimension with several sizes, at which shapes are examined anyway."""
    if d.fixed or d.mixed:
        return None
    if 2 * size in d:
        return 2 * size
    assert d.high is not None
    return d.high if d.high > size else half(d, size)


def half(d: DimSizes, size: int) -> int:
    """About half of a size, or the smallest one in the range."""
    return max(d.low, -(-size // 2))


def record(model: ir.Model, said: Mapping[str, DimSizes]) -> None:
    """Writes ranges into a model; dimensions that have one size only become constants."""
    ranges = {name: d.range for name, d in said.items() if d.high is not None}
    if not ranges:
        return
    model.metadata_props[METADATA] = json.dumps(ranges)
    fixed = {name: d.low for name, d in said.items() if d.fixed}
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.shape is not None and not fixed.keys().isdisjoint(map(str, dims_of(value))):
            value.shape = ir.Shape(
                [fixed.get(str(name), d) for name, d in zip(dims_of(value), value.shape, strict=True)]
            )


def _recorded(model: ir.Model) -> dict[str, DimSizes]:
    """The ranges that a model records; none if something else is written there."""
    try:
        found = json.loads(model.metadata_props.get(METADATA, "{}"))
        return {
            str(name): d for name, text in found.items() if (d := DimSizes.of(str(text))).high is not None
        }
    except (ValueError, AttributeError):
        return {}
