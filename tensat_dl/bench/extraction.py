"""``tensat-dl bench extraction``: all extraction methods side by side, on the same e-graphs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tensat_dl.bench.common import (
    MODELS,
    ModelName,
    Report,
    Row,
    check_json,
    cost_kind,
    device_option,
    finish,
    json_option,
    machine,
    max_nodes_option,
    say,
)
from tensat_dl.bench.depth import NODES_PER_LAYER, text
from tensat_dl.bench.extraction_table import COLUMNS, HEADINGS, NOTES, lines
from tensat_dl.cli.options import Seconds

#: How cycles are treated in exploration, and what extracts from the e-graph that results.
WAYS = {"none": COLUMNS, "efficient": ("ilp-none", "exact")}

#: Seconds of exploration; long, so that e-graphs are the same wherever the e-node limit binds first.
EXPLORE_SECONDS = 300.0

#: Width and tokens of deep encoders.
DEEP = (128, 64)

#: Relative difference by which a cost may lie below what another method calls a bound.
TOLERANCE = 1e-6


class EGraphName(ModelName):
    """A model, or the path of an e-graph in egraph-serialize JSON, which must be one."""

    name = "e-graph"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.endswith(".json"):
            return super().convert(value, param, ctx)
        from tensat_dl.bench.extraction_cell import load

        try:
            load(value)
        except ValueError as e:
            self.fail(f"{value}: {e}", param, ctx)
        return str(value)


@click.command("extraction")
@click.argument("names", nargs=-1, type=EGraphName(), metavar="[MODEL|FILE.json]...")
@click.option(
    "--rules",
    "pack",
    default="pairs",
    show_default=True,
    type=click.Choice(("pairs", "taso", "groups")),
    help="pairs: standard with pairs in place of groups; taso: the paper's rules; groups: standard.",
)
@click.option(
    "--k-multi",
    multiple=True,
    type=click.IntRange(0),
    default=(1, 2),
    show_default=True,
    metavar="N",
    help="Iterations of multi-pattern rules; may be repeated. The pack groups has none.",
)
@click.option(
    "--deep",
    multiple=True,
    type=click.IntRange(1),
    metavar="N",
    help="Also the encoder of N layers of bench depth; may be repeated.",
)
@max_nodes_option
@click.option(
    "--time-limit",
    default=60.0,
    show_default=True,
    type=Seconds(),
    metavar="S",
    help="Stop each method after S seconds.",
)
@device_option
@json_option
def command(
    names: tuple[str, ...],
    pack: str,
    k_multi: tuple[int, ...],
    deep: tuple[int, ...],
    max_nodes: int,
    time_limit: float,
    device: str,
    json_path: str | None,
) -> int:
    """Greedy extraction, the paper's integer programs and the exact method, on the same e-graphs.

    E-graphs are those of models, explored once with cycles and once with the paper's efficient cycle filter, and
    files in egraph-serialize JSON; without any, the models of the paper. Fails if one method finds something cheaper
    than what another has proven.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    check_json(json_path, names)
    title = f"Extraction, rules {pack}, at most {time_limit:g} s; {device}"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        if heading == "e-graph":
            table.add_column(heading, min_width=16, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    options = {
        "rules": pack,
        "k_multi": list(k_multi),
        "deep": list(deep),
        "max_nodes": max_nodes,
        "time_limit": time_limit,
        "device": device,
    }
    steps = dict.fromkeys(None if pack == "groups" else k for k in k_multi)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        models = [(name, name, max_nodes) for name in names or (() if deep else MODELS)]
        for layers in deep:
            file = Path(folder) / f"encoder_{layers}.tsr"
            file.write_text(text("encoder", layers, *DEEP), encoding="utf-8")
            models.append((f"encoder {layers}", str(file), max(max_nodes, NODES_PER_LAYER * layers)))
        kept = str(Path(folder) / "egraph.pickle")
        for name, model, nodes in models:
            if model.endswith(".json"):
                egraphs: Iterator[list[Row]] = iter([of_file(model, time_limit)])
            else:
                job = {"model": model, "pack": pack, "device": device, "max_nodes": nodes, "path": kept}
                egraphs = (of_model(name, job, k, time_limit) for k in steps)
            for found in egraphs:
                check(found)
                rows += found
                Report("extraction", options, machine(), rows).keep(json_path)
    for line in lines(rows):
        table.add_row(*line)
    notes = [*NOTES, *([cost_kind(rows, device)] if any("measured_share" in r for r in rows) else [])]
    return finish(Report("extraction", options, machine(), rows), table, notes, json_path)


def of_model(name: str, job: Row, k_multi: int | None, seconds: float) -> list[Row]:
    """All measurements of a model, with cycles kept and with cycles filtered."""
    rows = []
    for cycles, methods in WAYS.items():
        egraph = {"model": name, "rules": job["pack"], "k_multi": k_multi, "cycles": cycles}
        say(egraph)
        limits = {"k_multi": k_multi, "cycles": cycles, "seconds": EXPLORE_SECONDS}
        egraph |= measured("explored", EXPLORE_SECONDS, {**job, **limits})
        if "nodes" in egraph:
            rows += of_egraph(egraph, job["path"], methods, seconds)
        else:
            rows.append(egraph)
    return rows


def of_file(path: str, seconds: float) -> list[Row]:
    """All measurements of an e-graph in a file. What foreign costs stand for is not known."""
    from tensat_dl.bench.extraction_cell import load

    found, _ = load(path)
    egraph = {"model": path, "rules": None, "k_multi": None, "cycles": None, "stop": None}
    sizes = {"nodes": found.num_nodes, "classes": found.num_classes}
    return of_egraph({**egraph, **sizes}, path, COLUMNS, seconds)


def of_egraph(egraph: Row, path: str, methods: Sequence[str], seconds: float) -> list[Row]:
    """A row for each method."""
    rows = []
    for method in methods:
        row = {**egraph, "method": method}
        say(row)
        rows.append(
            row | measured("extracted", seconds, {"path": path, "method": method, "seconds": seconds})
        )
    return rows


def measured(function: str, seconds: float, job: Row) -> Row:
    """What a function of `extraction_cell`, which should take so many seconds, answers in a process of its own.

    It is ended when it takes as long again, and time to start and to read besides. That is an outcome, no error.
    """
    from tensat_dl.apart import Failed, Overran, apart

    longest = 2 * seconds + 60
    try:
        return apart(f"tensat_dl.bench.extraction_cell:{function}", longest, **job)
    except Overran:
        return {"status": "killed", "seconds": longest}
    except Failed as e:
        return {"error": str(e)}


def check(rows: Sequence[Row]) -> None:
    """Puts an error into each row that says it has proven more than is true of the same e-graph."""
    for row in rows:
        same = (r for r in rows if r["cycles"] == row["cycles"] and "cost" in r)
        best = min(same, key=lambda r: float(r["cost"]), default=None)
        if best is not None and "bound" in row and best["cost"] < row["bound"] * (1 - TOLERANCE):
            row["error"] = (
                f"proves that nothing costs less than {row['bound']:.9g} ({row['status']}), "
                f"but {best['method']} found {best['cost']:.9g}"
            )
