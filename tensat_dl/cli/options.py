"""Options that several commands have. Imports nothing heavy: ``--help`` comes through here."""

from __future__ import annotations

import math
from typing import Any

import click

from tensat_dl.extract.types import METHODS


class Seconds(click.FloatRange):
    """A duration: a number that is not negative, nor NaN."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class Count(click.IntRange):
    """A number that is not negative, or "unlimited" (None)."""

    name = "count"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "unlimited" else super().convert(value, param, ctx)


class Dim(click.types.StringParamType):
    """NAME=N."""

    name = "dimension"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, equals, size = str(value).rpartition("=")
        if not (equals and name and size.isascii() and size.isdigit() and 0 < int(size) < 2**31):
            self.fail(f"{value!r} is not NAME=N with a positive N, such as batch=1", param, ctx)
        return name, int(size)


DIM_HELP = "The size of an open dimension of an ONNX model; may be repeated."

extract_method = click.option(
    "--extract",
    "method",
    default="exact",
    show_default=True,
    type=click.Choice(METHODS),
    help="Extraction method.",
)
