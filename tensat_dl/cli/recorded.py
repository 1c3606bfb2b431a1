"""The command line of a run, as it is written into its output and read back from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tensat_dl.cli.models import is_onnx
from tensat_dl.cli.options import Count
from tensat_dl.onnx.installed import PACK
from tensat_dl.run.machines import DEVICE, ONNX_DEVICE
from tensat_dl.why.origin import relative, resolved

#: The options of `run` that decide the result. The others are about output.
DECIDE = (
    *(
        "graph_name",
        "rules",
        "device",
        "threads",
        "k_multi",
        "max_nodes",
        "max_iters",
        "time_limit",
        "max_memory",
    ),
    *("cycles", "method", "extract_time_limit", "no_reassociate", "fuse", "dims"),
)


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


def parameters(command: click.Command, recorded: tuple[str, ...], output: str) -> dict[str, Any]:
    """The parameters of a recorded `run`. Raises `click.UsageError` if the text is no command line of `run`."""
    given = command.make_context("run", list(recorded), resilient_parsing=False).params
    model = is_onnx(given["file"])
    given["device"] = given["device"] or (ONNX_DEVICE if model else DEVICE)
    given["rules"] = given["rules"] or ((PACK,) if model else ())
    given["file"] = resolved(given["file"], output)
    given["rules"] = tuple(resolved(r, output) if is_path(r) else r for r in given["rules"])
    return given


def is_path(pack: str) -> bool:
    """Whether ``--rules`` names a file rather than a pack of the library."""
    return pack.endswith(".tsr") or "/" in pack


def _options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option) and p.name in DECIDE]
