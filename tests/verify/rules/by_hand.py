"""Evaluates the terms of a printed counterexample in plain NumPy: nothing here knows how the library computes.

A term is text such as ``relu(conv2d(x, w; stride = [2, 1]))``. Products and windows are loops over elements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

TOKEN = re.compile(r"\s*([A-Za-z_]\w*(?:\[\d+\])?|-?\d+(?:\.\d+)?(?:e-?\d+)?|[()\[\],;=])")
NUMBER = re.compile(r"-?\d")
Attrs = dict[str, Any]


def evaluate(term: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
    tokens = TOKEN.findall(term)
    assert "".join(tokens) == re.sub(r"\s", "", term), term
    reader = _Reader(tokens, values)
    result = reader.term()
    assert not reader.tokens, term
    return result


class _Reader:
    def __init__(self, tokens: list[str], values: Mapping[str, np.ndarray]) -> None:
        self.tokens = tokens
        self.values = values

    def take(self, expected: str | None = None) -> str:
        token = self.tokens.pop(0)
        assert expected in (None, token), f"{expected} expected, {token} found"
        return token

    def term(self) -> np.ndarray:
        name = self.take()
        if NUMBER.match(name):
            return np.asarray(float(name))
        if not self.tokens or self.tokens[0] != "(":
            return self.values[name]
        self.take("(")
        args: list[np.ndarray] = []
        attrs: Attrs = {}
        while self.tokens[0] not in ";)":
            args.append(self.term())
            if self.tokens[0] == ",":
                self.take()
        if self.tokens[0] == ";":
            self.take()
            while self.tokens[0] != ")":
                key = self.take()
                self.take("=")
                attrs[key] = self.value()
                if self.tokens[0] == ",":
                    self.take()
        self.take(")")
        return OPERATORS[name](attrs, *args)

    def value(self) -> Any:
        token = self.take()
        if token == "[":
            items = []
            while self.tokens[0] != "]":
                items.append(self.value())
                if self.tokens[0] == ",":
                    self.take()
            self.take("]")
            return items
        if NUMBER.match(token):
            return float(token) if re.search(r"[.e]", token) else int(token)
        return token


def _act(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    name = attrs.get("act", "none")
    return x if name == "none" else FUNCTIONS[name](x)


def _each(f: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([f(float(e)) for e in x.ravel()]).reshape(x.shape)


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": _each(lambda x: max(x, 0.0)),
    "tanh": _each(math.tanh),
    "sigmoid": _each(lambda x: 1 / (1 + math.exp(-x))),
    "gelu": _each(lambda x: x * 0.5 * math.erfc(-x / 2**0.5)),
    "exp": _each(math.exp),
    "sqrt": _each(math.sqrt),
}


def _matmul(attrs: Attrs, x: np.ndarray, y: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    out = (x[..., :, :, None] * y[..., None, :, :]).sum(axis=-2)
    return _act(attrs, out + bias[0] if bias else out)


def _padded(x: np.ndarray, pads: list[int], value: float) -> np.ndarray:
    (t, left, b, r) = pads
    return np.pad(x.astype(float), ((0, 0), (0, 0), (t, b), (left, r)), constant_values=value)


def _four(attrs: Attrs) -> list[int]:
    return _list(attrs.get("pads", 0), 4)


def _list(value: int | list[int], n: int) -> list[int]:
    return value if isinstance(value, list) else [value] * n


def _conv2d(attrs: Attrs, x: np.ndarray, w: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    sh, sw = _list(attrs.get("stride", 1), 2)
    dh, dw = _list(attrs.get("dilation", 1), 2)
    x = _padded(x, _four(attrs), 0)
    (n, c, h, wide), (o, i, kh, kw) = x.shape, w.shape
    groups = c // i
    out = np.zeros((n, o, (h - (kh - 1) * dh - 1) // sh + 1, (wide - (kw - 1) * dw - 1) // sw + 1))
    for b, k, r, s in np.ndindex(out.shape):
        first = k // (o // groups) * i
        for ci, y, z in product(range(i), range(kh), range(kw)):
            out[b, k, r, s] += x[b, first + ci, r * sh + y * dh, s * sw + z * dw] * w[k, ci, y, z]
    return _act(attrs, out + bias[0][:, None, None] if bias else out)


def _windows(attrs: Attrs, x: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    kh, kw = _list(attrs["kernel"], 2)
    sh, sw = _list(attrs.get("stride", 1), 2)
    n, c, h, w = x.shape
    for b, k, r, s in np.ndindex(n, c, (h - kh) // sh + 1, (w - kw) // sw + 1):
        yield (b, k, r, s), x[b, k, r * sh : r * sh + kh, s * sw : s * sw + kw].ravel()


def _pool(attrs: Attrs, x: np.ndarray, f: Callable[[np.ndarray], float]) -> np.ndarray:
    found = dict(_windows(attrs, _padded(x, _four(attrs), np.nan)))
    out = np.zeros([1 + max(index[d] for index in found) for d in range(4)])
    for index, window in found.items():
        out[index] = f(window)
    return _act(attrs, out)


def _poolavg(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    if attrs.get("include_pad") == "true":
        return _pool(attrs, x, lambda w: float(np.nan_to_num(w).sum() / w.size))
    return _pool(attrs, x, lambda w: float(w[~np.isnan(w)].mean()))


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integers divide toward zero."""
    return np.trunc(x / y).astype(int) if x.dtype.kind == y.dtype.kind == "i" else x / y


def _mean(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    total = x.sum(axis=attrs["axis"], keepdims=True)
    return _divide(total, np.asarray(x.shape[attrs["axis"]]))


def _softmax(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(axis=attrs["axis"], keepdims=True)


def _batchnorm(attrs: Attrs, x: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    scale, bias, mean, var = (p.reshape(-1, *[1] * (x.ndim - 2)) for p in parameters)
    return (x - mean) / np.sqrt(var + attrs.get("eps", 1e-5)) * scale + bias


def _layernorm(attrs: Attrs, x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + attrs.get("eps", 1e-5)) * scale + bias


def _enlarge(attrs: Attrs, w: np.ndarray) -> np.ndarray:
    kh, kw = _list(attrs["kernel"], 2)
    before = [(kh - w.shape[2]) // 2, (kw - w.shape[3]) // 2]
    after = [kh - w.shape[2] - before[0], kw - w.shape[3] - before[1]]
    return np.pad(w, ((0, 0), (0, 0), (before[0], after[0]), (before[1], after[1])))


def _merge(attrs: Attrs, w: np.ndarray) -> np.ndarray:
    groups, count = attrs["groups"], attrs["count"]
    o, i, kh, kw = w.shape
    out = np.zeros((o, count * i, kh, kw))
    for k in range(o):
        part = k // (o // groups) % count
        out[k, part * i : (part + 1) * i] = w[k]
    return out


def _slice(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.take(x, range(attrs["start"], attrs["stop"]), axis=attrs["axis"])


OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    **{name: lambda attrs, x, f=f: f(x) for name, f in FUNCTIONS.items()},
    "ewadd": lambda attrs, x, y: x + y,
    "ewsub": lambda attrs, x, y: x - y,
    "ewmul": lambda attrs, x, y: x * y,
    "smul": lambda attrs, x, y: x * y,
    "ewdiv": lambda attrs, x, y: _divide(x, y),
    "matmul": _matmul,
    "conv2d": _conv2d,
    "poolmax": lambda attrs, x: _pool(attrs, x, lambda w: float(np.nanmax(w))),
    "poolavg": _poolavg,
    "softmax": _softmax,
    "batchnorm": _batchnorm,
    "layernorm": _layernorm,
    "reduce_sum": lambda attrs, x: x.sum(axis=attrs["axis"], keepdims=True),
    "reduce_mean": _mean,
    "transpose": lambda attrs, x: np.transpose(x, attrs["perm"]),
    "reshape": lambda attrs, x: np.reshape(x, attrs["shape"]),
    "concat": lambda attrs, *xs: np.concatenate(xs, axis=attrs["axis"]),
    "slice": _slice,
    "enlarge": _enlarge,
    "merge": _merge,
    "fill": lambda attrs: np.full(attrs["shape"], attrs["value"]),
}
