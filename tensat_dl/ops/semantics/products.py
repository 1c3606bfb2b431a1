"""Matrix product and convolution, each with an optional bias and an activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensat_dl.ops.semantics.elementwise import ACTIVATIONS
from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, integers, text

#: A convolution gathers the windows of a block of output rows at a time, in about this many bytes: the second
#: layer of VGG at 224 x 224 would take 230 MB at once, and a smaller block is no slower.
BLOCK_BYTES = 1 << 24


def matmul(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """x [.., m, k], y [.., k, n], optional bias [n] -> act(x y + bias) [.., m, n]."""
    x, y, *bias = arrays
    out = np.matmul(x, y)
    for vector in bias:
        out = out + vector
    return ACTIVATIONS[text(attrs, "act")](out)


def conv2d(arrays: Sequence[Array], attrs: Attributes) -> Array:
    """x [n, c, h, w], w [o, c / groups, kh, kw], optional bias [o] -> act(x * w + bias) [n, o, oh, ow]."""
    x, weight, *bias = arrays
    padded = pad_spatial(x, integers(attrs, "pads"))
    out = correlate(padded, weight, integers(attrs, "stride"), integers(attrs, "dilation"))
    for vector in bias:
        out = out + vector[:, None, None]
    return ACTIVATIONS[text(attrs, "act")](out)


def pad_spatial(x: Array, pads: Sequence[int], value: object = 0) -> Array:
    """[n, c, h, w] framed by ``pads`` = (top, left, bottom, right) rows and columns of ``value``."""
    if not any(pads):
        return x
    top, left, bottom, right = pads
    n, c, h, w = x.shape
    out = np.full((n, c, top + h + bottom, left + w + right), value, x.dtype)
    out[:, :, top : top + h, left : left + w] = x
    return out


def correlate(x: Array, weight: Array, stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """Grouped cross-correlation without padding: [n, c, h, w], [o, c / groups, kh, kw] -> [n, o, oh, ow]."""
    (n, c, h, w), (o, per_group, kh, kw) = x.shape, weight.shape
    groups = c // per_group
    (sh, sw), (dh, dw) = stride, dilation
    span_h, span_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    oh, ow = (h - span_h) // sh + 1, (w - span_w) // sw + 1
    if per_group == 1:
        # One multiplication per kernel element over whole images: matrices of one row gain nothing from BLAS.
        kernel = weight.reshape(groups, o // groups, kh, kw, 1, 1)
        total = np.zeros((n, groups, o // groups, oh, ow), np.result_type(x, weight))
        for i in range(kh):
            for j in range(kw):
                rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
                columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
                total += x[:, :, None, rows, columns] * kernel[:, :, i, j]
        return total.reshape(n, o, oh, ow)

    matrix = weight.reshape(groups, o // groups, per_group * kh * kw)
    if kh == kw == 1:
        pixels = x[:, :, ::sh, ::sw].reshape(n, groups, per_group, oh * ow)
        return np.asarray(np.matmul(matrix, pixels).reshape(n, o, oh, ow))

    windows = np.lib.stride_tricks.sliding_window_view(x, (span_h, span_w), axis=(2, 3))
    windows = windows[:, :, ::sh, ::sw, ::dh, ::dw].transpose(0, 1, 4, 5, 2, 3)  # [n, c, kh, kw, oh, ow]
    out = np.empty((n, groups, o // groups, oh, ow), np.result_type(x, weight))
    rows_per_block = max(1, BLOCK_BYTES // (c * kh * kw * ow * x.itemsize))
    for image in range(n):
        for start in range(0, oh, rows_per_block):
            block = windows[image, :, :, :, start : start + rows_per_block]
            gathered = block.reshape(groups, per_group * kh * kw, -1)
            product = np.matmul(matrix, gathered)
            out[image, :, :, start : start + rows_per_block] = product.reshape(groups, o // groups, -1, ow)
    return out.reshape(n, o, oh, ow)


SEMANTICS: dict[str, Semantics] = {"matmul": matmul, "conv2d": conv2d}
