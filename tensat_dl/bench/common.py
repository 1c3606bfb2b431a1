"""What all benchmarks share: their models, their options, and the form of their results. Imports nothing heavy."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensat_dl import resources
from tensat_dl.cli.options import Seconds

if TYPE_CHECKING:
    from rich.table import Table

#: The models of the paper, the two that it left out included.
MODELS = (
    "bert",
    "nasrnn",
    "resnext50",
    "nasnet_a",
    "inception_v3",
    "squeezenet",
    "vgg19",
    "resnet50",
    "mobilenet_v2",
)
#: Those of its ablations.
ABLATION = ("bert", "nasrnn", "nasnet_a")

Row = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """The results of a benchmark. ``options`` and ``machine`` say how and where they were found; one row holds
    what one measurement gave, or ``error``."""

    benchmark: str
    options: Mapping[str, Any]
    machine: Mapping[str, Any]
    rows: Sequence[Row]

    def write(self, path: str | None) -> None:
        from tensat_dl.files import write

        if path is not None:
            write(path, json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")

    def keep(self, path: str | None) -> None:
        """Writes what there is so far: a benchmark that is interrupted does not lose it."""
        if path != "-":
            self.write(path)


def machine() -> dict[str, Any]:
    """Where a benchmark ran, as far as it matters to times."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: _version(package) for package in ("tensat-dl", "egglog", "pyscipopt")},
    }


def _version(package: str) -> str | None:
    """None for what is not installed: a machine that measures only."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class ModelName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An example by its name, or a path of a .tsr file with one graph."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not path_of(value).is_file():
            from tensat_dl.core.diagnostics import did_you_mean

            known = sorted(p.stem for p in resources.examples().glob("*.tsr"))
            hint = did_you_mean(value, known) or f"models are {', '.join(MODELS)}, or paths of .tsr files"
            self.fail(f"no model `{value}`: {hint}", param, ctx)
        return str(value)


def path_of(model: str) -> Path:
    """The file of a model."""
    return Path(model) if model.endswith(".tsr") else resources.examples() / f"{model}.tsr"


def models_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("models", nargs=-1, type=ModelName(), metavar="[MODEL]...")(function)


def limit_options(seconds: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options --max-nodes and --time-limit, with this default."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        limit = click.option(
            "--time-limit",
            default=seconds,
            show_default=True,
            type=Seconds(),
            metavar="S",
            help="Stop exploring after S seconds, and extracting after S more.",
        )
        return max_nodes_option(limit(function))

    return add


max_nodes_option = click.option(
    "--max-nodes", default=50_000, show_default=True, type=click.IntRange(1), metavar="N"
)
json_option = click.option("--json", "json_path", metavar="FILE", help="Write the results as JSON.")


def check_json(json_path: str | None, models: Sequence[str] = ()) -> None:
    """Raises OSError or `click.UsageError` before the work for results that can't be written after it, or that would
    overwrite the file of a model, or what that imports, or an e-graph (.json)."""
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.files import check_writable
    from tensat_dl.lang.imports import files_of

    if json_path is None:
        return
    check_writable([json_path])
    for model in models:
        read = (model,) if model.endswith(".json") else tuple(map(str, files_of(str(path_of(model)))))
        check_outputs([json_path], read, "which")


device_option = click.option(
    "--device",
    default="h100",
    show_default=True,
    metavar="NAME",
    help="The device whose costs are minimised.",
)


#: What is said of an exploration that a limit ended; saturation and the last iteration go without saying.
LIMITS = {"nodes": "n", "time": "t", "memory": "m"}


def measure_all(
    function: str, variants: Sequence[Mapping[str, Any]], seconds: float, **arguments: Any
) -> list[Row]:
    """A row for each variant of the arguments, measured one after the other, each for so many seconds at most."""
    from tensat_dl.apart import Failed, apart

    rows: list[Row] = []
    for variant in variants:
        job = {**arguments, **variant}
        say(_identity(job))
        try:
            rows.append(apart(function, seconds, **job))
        except Failed as e:
            rows.append({**_identity(job), "error": str(e)})
    return rows


def say(row: Row) -> None:
    """What is being measured, to whoever waits at a terminal."""
    if sys.stderr.isatty():
        click.echo(f"measuring {_name(row)}", err=True)


def _name(row: Row) -> str:
    """Which measurement a row is of."""
    names = ("model", "rules", "k_multi", "cycles", "method")
    return ", ".join(f"{k} {row[k]}" for k in names if k in row)


def _identity(job: Mapping[str, Any]) -> Row:
    names = {"model": "model", "pack": "rules", "k_multi": "k_multi", "cycles": "cycles"}
    return {shown: job[name] for name, shown in names.items() if name in job}


def size(row: Row) -> str:
    """E-nodes, and the limit that ended exploration."""
    return f"{row['nodes']:,}{LIMITS.get(row['stop'], '')}"


def seconds(row: Row) -> str:
    """Seconds of exploration without the start of the engine's process."""
    if row["stop"] == "time":
        return f"> {row['explore_limit']:g}"
    return f"{row['seconds']['iterations']:.2f}"


def cost(row: Row) -> str:
    """The cost that was found, and its gap unless it is optimal."""
    if row["status"] == "optimal":
        return f"{row['after']:.4f}"
    gap = "?" if row["gap"] is None else f"{row['gap']:.1%}"
    return f"{row['after']:.4f} ±{gap}"


def cost_kind(rows: Sequence[Row], device: str) -> str:
    """Whether costs were measured or estimated."""
    shares = [r["measured_share"] for r in rows if "measured_share" in r]
    kind = "estimated (roofline)" if not any(shares) else "partly measured"
    return f"Costs are {kind} for {device}."


def finish(report: Report, table: Table, notes: Sequence[str], json_path: str | None) -> int:
    """Prints a benchmark's table and writes its file; exit code 1 if a measurement failed."""
    from rich.console import Console

    stream = sys.stderr if json_path == "-" else sys.stdout
    console = Console(file=stream)
    if not console.is_terminal:
        console = Console(file=stream, width=200)
    console.print(table)
    for note in notes:
        console.print(note, markup=False, highlight=False)
    report.write(json_path)
    failed = [r for r in report.rows if "error" in r]
    for row in failed:
        click.echo(f"error: {_name(row)}: {row['error']}", err=True)
    return 1 if failed else 0
