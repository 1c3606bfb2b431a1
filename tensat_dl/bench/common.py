"""Models, options and results that all benchmarks share. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tensat_dl import resources
from tensat_dl.cli.options import Seconds
from tensat_dl.cli.options import where_options as at
from tensat_dl.cost.device import processor
from tensat_dl.installed import version_of

if TYPE_CHECKING:
    from rich.table import Table

    from tensat_dl.jobs.run import Where

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


class Results:
    """The results of a benchmark: a row for each measurement, with its numbers or ``error``; the ``options``, by
    default the command line's; and the machine. Each row is written to the JSON file at once, so an interrupt loses
    none.

    Raises OSError or `click.UsageError` at the start if the file can't be written, or if it is a model, a file that a
    model imports, or an e-graph (.json).
    """

    def __init__(
        self,
        benchmark: str,
        json_path: str | None,
        models: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        where: Where | None = None,
    ) -> None:
        _check(json_path, models)
        self.where = where
        self.json_path = json_path
        self.benchmark = benchmark
        self.options = _options() if options is None else options
        self.machine = machine()
        self.rows: list[Row] = []

    def measure(
        self, function: str, variants: Sequence[Mapping[str, Any]], seconds: float | None, **arguments: Any
    ) -> list[Row]:
        """Adds and returns a row for each variant of the arguments; see `measure_all`."""
        found = measure_all(function, variants, seconds, self.where, **arguments)
        self.add(found)
        return found

    def add(self, rows: Sequence[Row]) -> None:
        self.rows += rows
        self.keep()

    def keep(self) -> None:
        if self.json_path != "-":
            self._write()

    def _write(self) -> None:
        from tensat_dl.files import write

        if self.json_path is not None:
            names = ("benchmark", "options", "machine", "rows")
            text = json.dumps({name: getattr(self, name) for name in names}, indent=1, allow_nan=False)
            write(self.json_path, text + "\n")

    def cost_kind(self, device: str) -> str:
        """Whether costs were measured or estimated."""
        shares = [r["measured_share"] for r in self.rows if "measured_share" in r]
        kind = "estimated (roofline)" if not any(shares) else "partly measured"
        return f"Costs are {kind} for {device}."

    def finish(self, table: Table, notes: Sequence[str]) -> int:
        """Prints a table and writes the file; exit code 1 if a measurement failed."""
        from rich.console import Console

        stream = sys.stderr if self.json_path == "-" else sys.stdout
        console = Console(file=stream)
        if not console.is_terminal:
            console = Console(file=stream, width=200)
        console.print(table)
        for note in notes:
            console.print(note, markup=False, highlight=False)
        self._write()
        failed = [r for r in self.rows if "error" in r]
        for row in failed:
            click.echo(f"error: {_name(row)}: {row['error']}", err=True)
        return 1 if failed else 0


def _options() -> dict[str, Any]:
    """The options of the command that runs, by name, but for its file."""
    context = click.get_current_context()
    names = [str(p.name) for p in context.command.params if isinstance(p, click.Option)]
    return {name: context.params[name] for name in names if name not in ("json_path", "jobs", "ray")}


def _check(json_path: str | None, models: Sequence[str]) -> None:
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.files import check_writable
    from tensat_dl.lang.imports import files_of

    if json_path is None:
        return
    check_writable([json_path])
    for model in models:
        read = (model,) if model.endswith(".json") else tuple(map(str, files_of(str(path_of(model)))))
        check_outputs([json_path], read, "which")


def earlier(json_path: str | None) -> dict[str, Any] | None:
    """The results of an earlier run, to be resumed; None if there are none. Raises `click.UsageError`."""
    if json_path is None or json_path == "-":
        raise click.UsageError("--resume needs the file with the earlier results: --json FILE")
    if not Path(json_path).exists():
        return None
    try:
        found: dict[str, Any] = json.loads(Path(json_path).read_text(encoding="utf-8"))
    except ValueError:
        raise no_results(json_path) from None
    return found


def finished(
    json_path: str | None, before: Row, options: Mapping[str, Any], models: Sequence[str]
) -> list[Row]:
    """The rows of an earlier run with these options, on this processor, that need not be measured again. Raises
    `click.UsageError`."""
    here = processor()
    try:
        if any(before.get("options", options).get(name) != value for name, value in options.items()):
            raise click.UsageError(f"{json_path} has results for other options, so it can't be resumed")
        if before.get("machine", {}).get("processor", here) != here:
            raise click.UsageError(f"{json_path} has results of another processor, so it can't be resumed")
        return [r for r in before["rows"] if r["model"] in models and "error" not in r]
    except (AttributeError, KeyError, TypeError):
        raise no_results(json_path) from None


def no_results(json_path: str | None) -> click.UsageError:
    return click.UsageError(f"{json_path} has no results of this benchmark, so it can't be resumed")


def new_table(title: str, *headings: str, left: Sequence[str] = ("model",), **options: Any) -> Table:
    """A table. The columns of the headings ``left`` are text, all others numbers."""
    from rich.table import Table

    table = Table(title=title, **options)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    return table


def machine() -> dict[str, Any]:
    """The hardware and the versions on which times depend."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version_of(package) or None for package in ("tensat-dl", "egglog", "pyscipopt")},
    }


class ModelName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An example by its name, or a path of a .tsr file with one graph."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not path_of(value).is_file():
            from tensat_dl.core.words import did_you_mean

            known = sorted(p.stem for p in resources.examples().glob("*.tsr"))
            hint = did_you_mean(value, known) or f"models are {', '.join(MODELS)}, or paths of .tsr files"
            self.fail(f"no model `{value}`: {hint}", param, ctx)
        return str(value)


def path_of(model: str) -> Path:
    """The file of a model."""
    return Path(model) if model.endswith(".tsr") else resources.examples() / f"{model}.tsr"


def models_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("models", nargs=-1, type=ModelName(), metavar="[MODEL]...")(function)


_Command = TypeVar("_Command", bound=Callable[..., Any])


def number_option(
    name: str, default: int | tuple[int, ...], help: str | None = None, least: int = 1
) -> Callable[[_Command], _Command]:
    """An option for a whole number; with several defaults for several."""
    return click.option(
        name,
        default=default,
        multiple=isinstance(default, tuple),
        show_default=default != (),
        type=click.IntRange(least),
        metavar="N",
        help=help,
    )


def seconds_option(name: str, default: float, help: str) -> Callable[[_Command], _Command]:
    return click.option(name, default=default, show_default=True, type=Seconds(), metavar="S", help=help)


#: The rules that benchmarks choose from, as their help describes them.
RULES = {
    "taso": "the paper's rules",
    "pairs": "standard with pairs in place of groups",
    "groups": "standard",
}


def rules_option(*packs: str) -> Callable[[_Command], _Command]:
    """The option --rules, for one of these packs, by default the first."""
    help = "; ".join(f"{p}: {RULES[p]}" for p in packs)
    return click.option(
        "--rules", default=packs[0], show_default=True, type=click.Choice(packs), help=f"{help}."
    )


max_nodes_option = number_option("--max-nodes", 50_000)


def limit_options(seconds: float) -> Callable[[_Command], _Command]:
    """The options --max-nodes and --time-limit, with this default."""
    limit = seconds_option(
        "--time-limit", seconds, "Stop exploring after S seconds, and extracting after S more."
    )
    return lambda command: max_nodes_option(limit(command))


where_options = at("1, alone on its machine")


def where_of(jobs: int | None, ray: str | None) -> Where:
    """Where to measure: one at a time, unless more are wanted."""
    from tensat_dl.jobs.run import Where

    return Where(jobs or (None if ray else 1), ray)


json_option = click.option("--json", "json_path", metavar="FILE", help="Write the results as JSON.")


device_option = click.option(
    "--device",
    default="h100",
    show_default=True,
    metavar="NAME",
    help="The device whose costs are minimised.",
)


#: The mark of an exploration that a limit ended; saturation and the last iteration go without saying.
LIMITS = {"nodes": "n", "time": "t", "memory": "m"}


def measure_all(
    function: str,
    variants: Sequence[Mapping[str, Any]],
    seconds: float | None,
    where: Where | None = None,
    /,
    **arguments: Any,
) -> list[Row]:
    """A row for each variant of the arguments, measured in a process of its own under a limit in seconds: one after
    the other, or ``where`` that says."""
    from tensat_dl.jobs.job import Job, Place, Work
    from tensat_dl.jobs.run import Where, done

    where = where or Where(1)
    # Alone on its machine, unless somebody wants more at a time here.
    place: Place = "machine" if where.ray is not None or where.jobs == 1 else "core"
    work = Work("tensat_dl.bench.common:measurement", (function,), place, True, seconds, retries=0)
    jobs = []
    for variant in variants:
        job = {**arguments, **variant}
        name = hashlib.sha256(repr((function, sorted(job.items()))).encode()).hexdigest()
        jobs.append(Job(name, job, _name(_identity(job))))
    rows: dict[int, Row] = {}
    with where.workers(work) as workers:
        say(_identity(jobs[0].argument))
        for i, ended in done(workers, jobs):
            identity = _identity(jobs[i].argument)
            rows[i] = {**identity, "error": ended.reply.reason} if ended.failed else ended.reply.answer
            left = [k for k in range(len(jobs)) if k not in rows]
            if left:
                say(_identity(jobs[left[0]].argument))
    return [rows[i] for i in range(len(jobs))]


def measurement(function: str) -> Callable[[Mapping[str, Any]], Row]:
    """Calls a function with the arguments of a job."""
    return lambda arguments: pkgutil.resolve_name(function)(**arguments)


def say(row: Row) -> None:
    """Prints the name of the next measurement, on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"measuring {_name(row)}", err=True)


def _name(row: Row) -> str:
    """The name of a row's measurement."""
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
