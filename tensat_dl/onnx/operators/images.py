"""Padding, resizing, and channels that become blocks of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from tensat_dl.core.types import TensorType
from tensat_dl.onnx.operator import NodeWriter, OnnxRow, OnnxTensor, Reading, Unmapped, Write
from tensat_dl.ops.semantics.resizing import sources

# ---- padding ---------------------------------------------------------------------------------------------


def _read_pad(r: Reading) -> int:
    x = r.x()
    rank, mode = r.type(x).rank, r.attr("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise Unmapped(f"its mode is {mode}")
    widths = [int(n) for n in r.constant(1).reshape(-1)]
    axes = [r.axis(int(a), x) for a in r.constant(3).reshape(-1)] if r.has(3) else range(rank)
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = widths[i], widths[len(axes) + i]
    if min(widths, default=0) < 0:
        raise Unmapped("it cuts off elements")
    value = r.number_of(2) if mode == "constant" and r.has(2) else 0.0
    return r.op("pad", x, before=tuple(before), after=tuple(after), mode=mode, value=value)


def _write_pad(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    widths = w.ints([*attrs["before"], *attrs["after"]])
    if attrs["mode"] != "constant":
        return w.op("Pad", xs[0].value, widths, mode=attrs["mode"])
    return w.op("Pad", xs[0].value, widths, w.number(attrs["value"], type.dtype))


def _write_enlarge(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], _: TensorType
) -> ir.Value:
    (x,) = xs
    extra = [new - old for new, old in zip(attrs["kernel"], x.type.shape[2:], strict=True)]
    before = [e // 2 for e in extra]
    after = [e - b for e, b in zip(extra, before, strict=True)]
    return w.op("Pad", x.value, w.ints([0, 0, *before, 0, 0, *after]))


# ---- resizing --------------------------------------------------------------------------------------------

#: ONNX's names of where pixels lie and how they are rounded, and the language's.
_COORDINATES = {
    "half_pixel": "half_pixel",
    "half_pixel_symmetric": "half_pixel",
    "pytorch_half_pixel": "half_pixel",
    "asymmetric": "asymmetric",
    "align_corners": "align_corners",
}
_ROUNDINGS = {
    "round_prefer_floor": "half_down",
    "round_prefer_ceil": "half_up",
    "floor": "down",
    "ceil": "up",
}


def _read_resize(r: Reading) -> int:
    """Nearest pixels whose blocks are all equal are `upsample`."""
    x, result = r.x(), r.result()
    old, new = r.type(x).shape, result.shape
    if len(old) != 4 or old[:2] != new[:2]:
        raise Unmapped("it is not two-dimensional")
    mode, place = r.attr("mode", "nearest"), r.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in ("nearest", "linear") or place not in _COORDINATES:
        raise Unmapped(f"its mode is {mode}, {place}")
    if r.attr("antialias", 0) or r.attr("exclude_outside", 0):
        raise Unmapped("what is outside counts for nothing, or it smooths")
    if r.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unmapped("it keeps proportions")
    if place == "pytorch_half_pixel" and 1 in new[2:]:
        raise Unmapped("a single pixel lies elsewhere")
    if r.has(2) and (scales := r.constant(2).reshape(-1).tolist()):
        axes = r.attr("axes", range(len(old)))
        if any(scale * old[a] != new[a] for scale, a in zip(scales, axes, strict=True)):
            raise Unmapped("its scales do not fit its size")
    attrs = {
        "mode": mode,
        "coordinates": _COORDINATES[place],
        "rounding": _ROUNDINGS[r.attr("nearest_mode", "round_prefer_floor")],
    }
    factors = tuple(n // o for n, o in zip(new[2:], old[2:], strict=True))
    if mode == "nearest" and all(
        sources(o, n, attrs).low == tuple(i // f for i in range(n)) if o * f == n else False
        for o, n, f in zip(old[2:], new[2:], factors, strict=True)
    ):
        return r.op("upsample", x, factor=factors)
    return r.op("resize", x, size=new[2:], **attrs)


def _write_resize(
    w: NodeWriter, xs: Sequence[OnnxTensor], attrs: Mapping[str, Any], type: TensorType
) -> ir.Value:
    coordinates = next(k for k, v in _COORDINATES.items() if v == attrs["coordinates"])
    rounding = next(k for k, v in _ROUNDINGS.items() if v == attrs["rounding"])
    return _resized(w, xs[0], type, attrs["mode"], coordinates, rounding)


def _write_upsample(
    w: NodeWriter, xs: Sequence[OnnxTensor], _: Mapping[str, Any], type: TensorType
) -> ir.Value:
    return _resized(w, xs[0], type, "nearest", "asymmetric", "floor")


def _resized(
    w: NodeWriter, x: OnnxTensor, type: TensorType, mode: str, coordinates: str, rounding: str
) -> ir.Value:
    """By scales where they are exact, as they fit images of other sizes, too."""
    scales = np.array([new / old for new, old in zip(type.shape, x.type.shape, strict=True)], np.float32)
    exact = all(s * o == n for s, o, n in zip(scales.tolist(), x.type.shape, type.shape, strict=True))
    nothing = None if w.opset >= 13 else w.constant(np.array([], np.float32), "nothing")
    sizes = (w.constant(scales, "scales"),) if exact else (nothing, w.ints(type.shape))
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    return w.op("Resize", x.value, nothing, *sizes, **attrs)


# ---- channels and pixels ---------------------------------------------------------------------------------


def _read_depth_to_space(r: Reading) -> int:
    op = "depth_to_space" if r.attr("mode", "DCR") == "DCR" else "pixel_shuffle"
    return r.op(op, r.x(), block=r.attr("blocksize"))


def _read_space_to_depth(r: Reading) -> int:
    if r.attr("mode", "DCR") != "DCR":  # it has a mode from opset 28 on
        raise Unmapped("its mode is not DCR")
    return r.op("space_to_depth", r.x(), block=r.attr("blocksize"))


def _write_blocks(onnx: str, **mode: str) -> Write:
    return lambda w, xs, attrs, type: w.op(onnx, xs[0].value, blocksize=attrs["block"], **mode)


ROWS = (
    OnnxRow("Pad", _read_pad, "pad", _write_pad),
    OnnxRow(op="enlarge", write=_write_enlarge),
    OnnxRow("Resize", _read_resize, "resize", _write_resize),
    OnnxRow(op="upsample", write=_write_upsample),
    OnnxRow(
        "DepthToSpace", _read_depth_to_space, "depth_to_space", _write_blocks("DepthToSpace", mode="DCR")
    ),
    OnnxRow(op="pixel_shuffle", write=_write_blocks("DepthToSpace", mode="CRD")),
    OnnxRow("SpaceToDepth", _read_space_to_depth, "space_to_depth", _write_blocks("SpaceToDepth")),
)
