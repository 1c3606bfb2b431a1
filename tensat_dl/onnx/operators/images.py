"""Images: padding, resizing, pools, and channels that become blocks of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tensat_dl.onnx.operator import OnnxRow, Read, Reading, Unmapped, Write, Writing
from tensat_dl.onnx.operators.elementwise import activated
from tensat_dl.onnx.operators.products import paddings
from tensat_dl.ops.semantics.images import sources

# ---- padding ---------------------------------------------------------------------------------------------


def _read_pad(r: Reading) -> int:
    x = r.x()
    rank, mode = r.type(x).rank, r.attr("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise Unmapped(f"its mode is {mode}")
    widths = r.list_of(1)
    axes = [r.axis(a, x) for a in r.list_of(3)] if r.has(3) else range(rank)
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = widths[i], widths[len(axes) + i]
    if min(widths, default=0) < 0:
        raise Unmapped("it has negative pads")
    value = r.number_of(2) if mode == "constant" and r.has(2) else 0.0
    return r.op("pad", x, before=tuple(before), after=tuple(after), mode=mode, value=value)


def _write_pad(w: Writing) -> ir.Value:
    widths = w.ints(*w.attrs["before"], *w.attrs["after"])
    if w.attrs["mode"] != "constant":
        return w.op("Pad", w.x, widths, mode=w.attrs["mode"])
    return w.op("Pad", w.x, widths, w.number(w.attrs["value"]))


def _write_enlarge(w: Writing) -> ir.Value:
    extra = [new - old for new, old in zip(w.attrs["kernel"], w.xs[0].type.shape[2:], strict=True)]
    return w.op("Pad", w.x, w.ints(0, 0, *(e // 2 for e in extra), 0, 0, *(e - e // 2 for e in extra)))


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
        raise Unmapped("it has exclude_outside or antialias")
    if r.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unmapped("it keeps proportions")
    if place == "pytorch_half_pixel" and 1 in new[2:]:
        raise Unmapped("pytorch_half_pixel places a single pixel elsewhere")
    if r.has(2) and (scales := r.list_of(2)):
        axes = r.attr("axes", range(len(old)))
        if any(scale * old[a] != new[a] for scale, a in zip(scales, axes, strict=True)):
            raise Unmapped("its scales contradict the size of its output")
    rounding = _ROUNDINGS[r.attr("nearest_mode", "round_prefer_floor")]
    attrs = {"mode": mode, "coordinates": _COORDINATES[place], "rounding": rounding}
    factors = tuple(n // o for n, o in zip(new[2:], old[2:], strict=True))
    if mode == "nearest" and all(
        o * f == n and sources(o, n, **attrs).low == tuple(i // f for i in range(n))
        for o, n, f in zip(old[2:], new[2:], factors, strict=True)
    ):
        return r.op("upsample", x, factor=factors)
    return r.op("resize", x, size=new[2:], **attrs)


def _write_resize(w: Writing) -> ir.Value:
    coordinates = next(k for k, v in _COORDINATES.items() if v == w.attrs["coordinates"])
    rounding = next(k for k, v in _ROUNDINGS.items() if v == w.attrs["rounding"])
    return _resized(w, w.attrs["mode"], coordinates, rounding)


def _resized(w: Writing, mode: str, coordinates: str, rounding: str) -> ir.Value:
    """By scales where they are exact, as they fit images of other sizes, too."""
    old, new = w.xs[0].type.shape, w.type.shape
    scales = np.array([n / o for n, o in zip(new, old, strict=True)], np.float32)
    exact = all(s * o == n for s, o, n in zip(scales.tolist(), old, new, strict=True))
    nothing = None if w.opset >= 13 else w.writer.constant(np.array([], np.float32), "nothing")
    sizes = (w.writer.constant(scales, "scales"),) if exact else (nothing, w.ints(*new))
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    return w.op("Resize", w.x, nothing, *sizes, **attrs)


# ---- pools -----------------------------------------------------------------------------------------------


def _window(r: Reading) -> tuple[int, dict[str, Any]]:
    """The input, and the attributes that both pools have."""
    x = r.x()
    r.only_result()
    if r.type(x).rank != 4:
        raise Unmapped("it is not two-dimensional")
    kernel = tuple(r.attr("kernel_shape"))
    stride = tuple(r.attr("strides", (1, 1)))
    if any(d != 1 for d in r.attr("dilations", (1, 1))):
        raise Unmapped("its windows are dilated")
    top, left, bottom, right = pads = paddings(r, x, kernel, stride)
    if r.attr("ceil_mode", 0):  # windows that begin within the data, and end beyond it
        sizes = zip(r.result().shape[2:], stride, kernel, r.type(x).shape[2:], strict=True)
        below, beside = ((out - 1) * s + k - n for out, s, k, n in sizes)
        pads = (top, left, max(bottom, below - top), max(right, beside - left))
    return x, {"kernel": kernel, "stride": stride, "pads": pads}


def _read_average(r: Reading) -> int:
    x, attrs = _window(r)
    counted = bool(r.attr("count_include_pad", 0))
    if counted and attrs["pads"] != paddings(r, x, attrs["kernel"], attrs["stride"]):
        raise Unmapped("its mean counts a part of the padding only")
    return r.op("poolavg", x, **attrs, include_pad=counted)


def _read_max(r: Reading) -> int:
    x, attrs = _window(r)
    return r.op("poolmax", x, **attrs)


def _read_global(op: str, reduction: str) -> Read:
    """A window as large as an image; along other numbers of axes, one after the other."""

    def read(r: Reading) -> int:
        x = r.x()
        rank = r.type(x).rank
        if rank == 4:
            return r.op(op, x, kernel=r.type(x).shape[2:])
        for axis in range(2, rank):
            x = r.op(reduction, x, axis=axis)
        return x

    return read


def _write_pool(onnx: str, **names: str) -> Write:
    def write(w: Writing) -> ir.Value:
        if w.attrs["kernel"] == w.xs[0].type.shape[2:] and not any(w.attrs["pads"]):
            return activated(w, w.op(f"Global{onnx}", w.x))
        return activated(w, w.renamed(onnx, kernel_shape="kernel", strides="stride", pads="pads", **names))

    return write


# ---- channels and pixels ---------------------------------------------------------------------------------


def _read_depth_to_space(r: Reading) -> int:
    op = "depth_to_space" if r.attr("mode", "DCR") == "DCR" else "pixel_shuffle"
    return r.op(op, r.x(), block=r.attr("blocksize"))


def _read_space_to_depth(r: Reading) -> int:
    if r.attr("mode", "DCR") != "DCR":  # it has a mode from opset 28 on
        raise Unmapped("its mode is not DCR")
    return r.op("space_to_depth", r.x(), block=r.attr("blocksize"))


def _write_blocks(onnx: str, **mode: str) -> Write:
    return lambda w: w.op(onnx, w.x, blocksize=w.attrs["block"], **mode)


ROWS = (
    OnnxRow("Pad", _read_pad, "pad", _write_pad),
    OnnxRow(op="enlarge", write=_write_enlarge),
    OnnxRow("Resize", _read_resize, "resize", _write_resize),
    OnnxRow(op="upsample", write=lambda w: _resized(w, "nearest", "asymmetric", "floor")),
    OnnxRow("MaxPool", _read_max, "poolmax", _write_pool("MaxPool")),
    OnnxRow(
        "AveragePool", _read_average, "poolavg", _write_pool("AveragePool", count_include_pad="include_pad")
    ),
    OnnxRow("GlobalMaxPool", _read_global("poolmax", "reduce_max")),
    OnnxRow("GlobalAveragePool", _read_global("poolavg", "reduce_mean")),
    OnnxRow(
        "DepthToSpace", _read_depth_to_space, "depth_to_space", _write_blocks("DepthToSpace", mode="DCR")
    ),
    OnnxRow(op="pixel_shuffle", write=_write_blocks("DepthToSpace", mode="CRD")),
    OnnxRow("SpaceToDepth", _read_space_to_depth, "space_to_depth", _write_blocks("SpaceToDepth")),
)
