"""``tensat-dl bench start``: how long the command line takes for small inputs, where starting is most of the work."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from tensat_dl.bench.common import (
    Results,
    Row,
    json_option,
    models_argument,
    new_table,
    number_option,
    path_of,
)

#: A rule of one's own on a tiny graph, and the README's first command.
MODELS = ("tiny_own_rule", "nasrnn")
COMMANDS = ("check", "run")


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of one call, all of its processes included: on the clock, and of computing."""

    wall: float
    cpu: float


@click.command("start")
@models_argument
@number_option("--runs", 5, "So often each command is run with what the first run has kept.")
@click.option(
    "--against",
    metavar="PYTHON",
    type=click.Path(exists=True, dir_okay=False),
    help="The Python of another installation, which is timed in turn with this one.",
)
@json_option
def command(models: tuple[str, ...], runs: int, against: str | None, json_path: str | None) -> int:
    """`check` and `run` of small models: seconds on the clock and of computing.

    The first run begins without the folder for caches. Of the others, the least seconds count: other work on the
    machine only adds to them.
    """
    models = models or MODELS
    results = Results("start", json_path, models, {"runs": runs, "against": against is not None})
    pythons = {"": sys.executable}
    if against:
        pythons["other"] = os.path.abspath(against)  # a virtual environment's Python is a link, to be kept
    others = ("other wall", "other cpu", "cpu ratio") if against else ()
    title = f"seconds; the least of {runs} but for the first"
    headings = ("model", "command", "first", "wall", "cpu", *others)
    table = new_table(title, *headings, left=("model", "command"))
    for model in models:
        for name in COMMANDS:
            row = {
                "model": model,
                "command": name,
                **timed([name, str(path_of(model).resolve())], runs, pythons),
            }
            results.add([row])
            if "error" in row:
                continue
            compared = (f"{row['other']['wall']:.2f}", f"{row['other']['cpu']:.2f}") if against else ()
            ratio = (f"{row['other']['cpu'] / row['cpu']:.2f}x",) if against else ()
            table.add_row(
                model, name, *(f"{row[k]:.2f}" for k in ("first", "wall", "cpu")), *compared, *ratio
            )
    return results.finish(table, [])


def timed(arguments: list[str], runs: int, pythons: dict[str, str]) -> Row:
    """The seconds of a command by several Pythons in turn: with the key "" those of the row itself."""
    taken: dict[str, list[Taken]] = {key: [] for key in pythons}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs + 1):
            for key, python in pythons.items():
                try:
                    taken[key].append(call(python, arguments, Path(folder) / (key or "own")))
                except subprocess.CalledProcessError as e:
                    return {"error": e.stderr.strip() or f"exit code {e.returncode}"}
    found = {
        key: {
            "first": all_runs[0].wall,
            "wall": min(t.wall for t in all_runs[1:]),
            "cpu": min(t.cpu for t in all_runs[1:]),
        }
        for key, all_runs in taken.items()
    }
    return {**found.pop(""), **found}


def call(python: str, arguments: list[str], caches: Path) -> Taken:
    """One call of the command line, with a folder for caches. Raises `subprocess.CalledProcessError`."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [python, "-P", "-m", "tensat_dl", *arguments, "-q"],
        cwd=caches.parent,  # Python imports what lies in the present folder first, which may be a checkout
        env={**os.environ, "XDG_CACHE_HOME": str(caches)},
        check=True,
        capture_output=True,
        text=True,
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(wall, cpu)
