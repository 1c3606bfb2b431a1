"""The command line of a run, as it is written into its output and read back from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from tensat_dl.cli.models import is_onnx
from tensat_dl.cli.options import RECORDED, Count, chosen
from tensat_dl.onnx.installed import PACK
from tensat_dl.run.machines import device_of
from tensat_dl.run.options import Options
from tensat_dl.why.origin import relative, resolved


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run was given that decides what it finds."""

    file: str
    graph_name: str | None
    rules: tuple[str, ...]
    dims: Mapping[str, int]
    options: Options


def arguments(context: click.Context, output: str, dims: Mapping[str, int]) -> tuple[str, ...]:
    """The file and the options that differ from their defaults, paths as seen from the output. ``dims`` are the sizes
    of a model's open dimensions, wherever they were given."""
    given = {**context.params, "dims": [f"{name}={size}" for name, size in dims.items()]}
    out = [relative(given["file"], output)]
    for option in _options(context.command):
        name = option.name or ""
        values = given[name] if option.multiple else (given[name],)
        for value in values:
            if value is None and not isinstance(option.type, Count):  # not given
                continue
            if not option.multiple and value == option.get_default(context):
                continue
            if option.is_flag:
                out.append(option.opts[-1])
                continue
            text = "unlimited" if value is None else str(value)
            out += [option.opts[-1], relative(text, output) if name == "rules" and is_path(text) else text]
    return tuple(out)


def recorded(command: click.Command, arguments: Sequence[str], output: str) -> Recorded:
    """What `run` was given. Raises `click.UsageError` if it was no such command line."""
    given = command.make_context("run", list(arguments), resilient_parsing=False).params
    model = is_onnx(given["file"])
    rules = given["rules"] or ((PACK,) if model else ())
    try:
        options = chosen({**given, "device": device_of(given["device"], model)})
    except ValueError as e:
        raise click.UsageError(str(e)) from None
    return Recorded(
        resolved(given["file"], output),
        given["graph_name"],
        tuple(resolved(r, output) if is_path(r) else r for r in rules),
        dict(given["dims"]),
        options,
    )


def is_path(pack: str) -> bool:
    """Whether ``--rules`` names a file rather than a pack of the library."""
    return pack.endswith(".tsr") or "/" in pack


def _options(command: click.Command) -> list[click.Option]:
    decide = RECORDED | {"graph_name", "rules", "dims"}
    return [p for p in command.params if isinstance(p, click.Option) and p.name in decide]
