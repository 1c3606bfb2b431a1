"""Options that several commands have.

Imports nothing heavy: ``--help`` comes through here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import click

from tensat_dl.run.options import About, Group, Options, about
from tensat_dl.sizes.dim_sizes import DimSizes

_Command = TypeVar("_Command", bound=Callable[..., Any])


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
    """A number from the least on, or "unlimited" (None)."""

    name = "count"

    def __init__(self, least: int) -> None:
        super().__init__(min=least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "unlimited" else super().convert(value, param, ctx)


class Dim(click.types.StringParamType):
    """NAME=SIZES, as `DimSizes` reads sizes."""

    name = "dimension"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        # A name may have a "=", too: sizes begin after the first one that nothing but sizes follow.
        found = re.fullmatch(r"(.+?)=([-\d.,= ]*)", str(value), re.ASCII)
        name, text = found.groups() if found is not None else str(value).partition("=")[::2]
        if not name or "=" not in str(value):
            self.fail(f"{value!r} is not NAME=SIZES, such as batch=1 or seq=1..512", param, ctx)
        try:
            return name, DimSizes.of(text)
        except ValueError as e:
            self.fail(f"{value!r}: {e}", param, ctx)


def _parameter(name: str, default: object) -> str:
    """Click's name of the parameter: an option that is on by default can be turned off."""
    return f"no_{name}" if default is True else name


def _type(said: About, default: object) -> click.ParamType[Any] | None:
    if said.choices:
        return click.Choice(said.choices)
    if said.unit == "seconds":
        return Seconds()
    if said.least is None:
        return None
    if isinstance(default, float):
        return click.FloatRange(said.least)
    return Count(said.least) if default is not None and said.none else click.IntRange(said.least)


graph_option = click.option(
    "--graph", "graph_name", metavar="NAME", help="The graph to use, if the file has several."
)
rules_option = click.option(
    "--rules", multiple=True, metavar="PACK", help="Also use a rule pack or .tsr file; may be repeated."
)
dims_option = click.option(
    *("--dim", "dims"),
    multiple=True,
    type=Dim(),
    metavar="NAME=SIZES",
    help="A size (N), a range (N..N) or several sizes (N,N) of an open dimension of an ONNX model, else a typical "
    "size; or a size (N) that a .tsr graph leaves open. May be repeated.",
)
time_limit_option = partial(click.option, "--time-limit", type=Seconds(), metavar="S")
ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help='Work on the Ray cluster at HOST:PORT; "local": on one that is started here. See docs/scale.md.',
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")


def where_options(jobs: str = "one for each core") -> Callable[[_Command], _Command]:
    """The options --jobs and --ray. Without them there are so many ``jobs`` at a time."""
    help = f"Do N jobs at a time; results do not depend on it.  [default: {jobs}]"
    option = click.option("--jobs", type=click.IntRange(1), metavar="N", help=help)
    return lambda command: option(ray_option(command))


def json_option(help: str) -> Callable[[_Command], _Command]:
    """The option for the path of a JSON file."""
    return click.option("--json", "json_path", metavar="FILE", help=help)


def option(name: str, **changed: Any) -> Callable[[_Command], _Command]:
    """The option of a command for a field of `Options`. Arguments of `click.option` may be ``changed`` for it."""
    field = next(f for f in fields(Options) if f.name == name)
    said, default = about(field), field.default
    flag = "--" + name.replace("_", "-")
    text = said.help.format(said.metavar)
    given: dict[str, Any] = {"metavar": said.metavar, "type": _type(said, default)}
    if isinstance(default, bool):
        given, flag = {"is_flag": True}, "--no-" + flag[2:] if default else flag
    elif field.type == "bool | None":
        given, flag = {"default": None}, f"{flag}/--no-{flag[2:]}"
    if default is None and said.none:
        text += f"  [default: {said.none}]"
    elif said.none:
        text = f'{text.removesuffix(".")}, or "{said.none}".'
    if default is not None and not isinstance(default, bool):
        given |= {"default": default, "show_default": True}
    return click.option(flag, _parameter(name, default), **{**given, "help": text, **changed})


def options(group: Group) -> Callable[[_Command], _Command]:
    """All options of a group, in order."""

    def add(command: _Command) -> _Command:
        for f in reversed(fields(Options)):
            if about(f).group == group:
                command = option(f.name)(command)
        return command

    return add


def chosen(given: Mapping[str, Any]) -> Options:
    """The options among a command's parameters. Raises ValueError, which names an option as it is written."""
    found: dict[str, Any] = {}
    defaults = {f.name: f.default for f in fields(Options)}
    for key, default in defaults.items():
        name = _parameter(key, default)
        if name in given:
            found[key] = given[name] is False if default is True else given[name]
    try:
        return Options(**found)
    except ValueError as e:
        name, _, said = str(e).partition(" ")
        if name not in found:
            raise
        raise ValueError(f"--{_parameter(name, defaults[name]).replace('_', '-')} {said}") from None
