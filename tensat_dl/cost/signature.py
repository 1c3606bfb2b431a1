"""Signatures: the facts that decide the cost of an operator application. Their text is the key of profile files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tensat_dl.core.graph import DTYPES, Attrs, AttrValue, TensorType


class SignatureError(ValueError):
    """The text is not a signature."""


@dataclass(frozen=True)
class Signature:
    """One operator on inputs of known types, on one device. Equal signatures cost the same.

    ``attrs`` are sorted by name. The signature of a view operator (slice, transpose) is that of its copy.
    ``weights`` are the positions of operands that are known ahead of time, on a device where that matters.
    ``content`` tells compositions of the same name apart, which two files may have; see `OpTable.content`.
    """

    op: str
    attrs: Attrs
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    device: str
    weights: tuple[int, ...] = ()
    content: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", tuple(sorted(self.attrs)))

    @cached_property
    def text(self) -> str:
        """As in ``matmul(f32[64, 1024], weight f32[1024, 512]; act=none) -> f32[64, 512] @ cpu``, for a composition
        ``silu#5b1c9a02(f32[4]) -> f32[4] @ h100``; see `parse`."""
        attrs = ", ".join(f"{name}={_value(value)}" for name, value in self.attrs)
        inputs = ", ".join(_WEIGHT * (i in self.weights) + str(t) for i, t in enumerate(self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        name = f"{self.op}#{self.content}" if self.content else self.op
        return f"{name}({inputs}{'; ' + attrs if attrs else ''}) -> {outputs} @ {self.device}"

    def __str__(self) -> str:
        return self.text


#: Words that JSON reads as something else than a string.
_RESERVED = {"true", "false", "null", "NaN", "Infinity"}
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: Stands before the type of an operand that is known ahead of time.
_WEIGHT = "weight "
#: The name of an operator, and what tells it from others of that name.
_OP = re.compile(r"([^\s()]+?)(?:#([0-9a-f]{8}))?(?=[\s()]|$)")
_TYPE = re.compile(r"(\w+)\[((?:\d+(?:, \d+)*)?)\]", re.ASCII)
_Item = TypeVar("_Item")
_DECODER = json.JSONDecoder()


def _value(value: AttrValue) -> str:
    if isinstance(value, str) and _WORD.fullmatch(value) and value not in _RESERVED:
        return value
    return json.dumps(value)


def parse(text: str) -> Signature:
    """The signature whose text this is. Raises `SignatureError`."""
    reader = _Reader(text.strip())
    op, content = reader.match(_OP, "an operator").groups(default="")
    reader.skip("(")
    operands = reader.listed(reader.operand) if reader.peek() not in (";", ")") else []
    attrs: list[tuple[str, AttrValue]] = []
    if reader.peek() == ";":
        reader.skip("; ")
        attrs = reader.listed(reader.attribute)
    reader.skip(") -> ")
    outputs = reader.listed(reader.type)
    reader.skip(" @ ")
    device = reader.match(re.compile(r"\S+$"), "a device").group()
    inputs = tuple(type for type, _ in operands)
    weights = tuple(i for i, (_, weight) in enumerate(operands) if weight)
    return Signature(op, tuple(attrs), inputs, tuple(outputs), device, weights, content)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, wanted: str) -> SignatureError:
        return SignatureError(f"expected {wanted} at column {self.at + 1} of the signature `{self.text}`")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise self.fail(f"`{token.strip()}`")
        self.at += len(token)

    def match(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.fail(wanted)
        self.at = found.end()
        return found

    def listed(self, item: Callable[[], _Item]) -> list[_Item]:
        found = [item()]
        while self.peek() == ",":
            self.skip(", ")
            found.append(item())
        return found

    def operand(self) -> tuple[TensorType, bool]:
        """A type, and whether it is that of a weight."""
        weight = self.text.startswith(_WEIGHT, self.at)
        if weight:
            self.skip(_WEIGHT)
        return self.type(), weight

    def attribute(self) -> tuple[str, AttrValue]:
        name = self.match(_WORD, "an attribute").group()
        self.skip("=")
        return name, self.value()

    def type(self) -> TensorType:
        start = self.at
        dtype, dims = self.match(_TYPE, "a type such as f32[64, 1024]").groups()
        if dtype not in DTYPES:
            self.at = start
            raise self.fail(f"an element type, one of {', '.join(DTYPES)},")
        return TensorType(dtype, tuple(int(d) for d in dims.split(", ") if d))

    def value(self) -> AttrValue:
        word = _WORD.match(self.text, self.at)
        if word and word.group() not in _RESERVED:
            self.at = word.end()
            return word.group()
        start = self.at
        try:
            value, self.at = _DECODER.raw_decode(self.text, start)
        except ValueError:
            raise self.fail("a value") from None
        if isinstance(value, list) and all(type(v) is int for v in value):
            return tuple(value)
        if not isinstance(value, int | float | str | bool):
            self.at = start
            raise self.fail("a number, a word, true, false or a list of integers")
        return value
