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
    Results,
    Row,
    device_option,
    json_option,
    max_nodes_option,
    new_table,
    number_option,
    rules_option,
    say,
    seconds_option,
    size,
)
from tensat_dl.bench.whole_runs import NODES_PER_LAYER, text
from tensat_dl.extract.extraction import METHODS


def columns(methods: Sequence[str]) -> tuple[str, ...]:
    """Methods in the order of the table, unknown methods last."""
    first = ("greedy", "greedy-dag", "ilp-real", "ilp-int", "ilp-none")
    return (*(m for m in first if m in methods), *(m for m in methods if m not in first))


COLUMNS = columns(METHODS)
HEADINGS = ("e-graph", "k", "e-nodes", "classes", *COLUMNS, "filtered\n/ kept")
NOTES = (
    "A cell: cost (seconds). ±: not proven optimal, and how far off it may be; greedy methods prove nothing.",
    "cyclic: refused, for ilp-none has no constraints against cycles. killed: ended long after its time limit.",
    'A line "filtered" is of the model above it, explored with the efficient cycle filter; filtered / kept: the',
    "optimum of that e-graph, relative to the one with cycles kept; its range where one is not proven.",
    "k: k_multi. n, t, m: the limit of e-nodes, time or memory ended exploration.",
)

#: How cycles are treated in exploration, and the methods that extract from the resulting e-graph.
WAYS = {"none": COLUMNS, "efficient": ("ilp-none", "exact")}

#: Seconds of exploration; long, so that e-graphs are the same wherever the e-node limit binds first.
EXPLORE_SECONDS = 300.0

#: Width and tokens of deep encoders.
DEEP = (128, 64)

#: Relative difference by which a cost may lie below the bound of another method.
TOLERANCE = 1e-6


class EGraphName(ModelName):
    """A model, or the path of a valid e-graph in egraph-serialize JSON."""

    name = "e-graph"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.endswith(".json"):
            return super().convert(value, param, ctx)
        from tensat_dl.bench.cells import load

        try:
            load(value)
        except ValueError as e:
            self.fail(f"{value}: {e}", param, ctx)
        return str(value)


@click.command("extraction")
@click.argument("names", nargs=-1, type=EGraphName(), metavar="[MODEL|FILE.json]...")
@rules_option("pairs", "taso", "groups")
@number_option(
    "--k-multi",
    (1, 2),
    "Iterations of multi-pattern rules; may be repeated. The pack groups has none.",
    least=0,
)
@number_option("--deep", (), "Also the encoder of N layers of bench depth; may be repeated.")
@max_nodes_option
@seconds_option("--time-limit", 60.0, "Stop each method after S seconds.")
@device_option
@json_option
def command(
    names: tuple[str, ...],
    rules: str,
    k_multi: tuple[int, ...],
    deep: tuple[int, ...],
    max_nodes: int,
    time_limit: float,
    device: str,
    json_path: str | None,
) -> int:
    """Greedy extraction, the paper's integer programs and the exact method, on the same e-graphs.

    Each model is explored once with cycles and once with the paper's efficient cycle filter; e-graphs are files in
    egraph-serialize JSON. Default: the models of the paper. Fails if a method finds an answer below another method's
    proven bound.
    """
    from rich.box import SIMPLE_HEAD

    results = Results("extraction", json_path, names)
    title = f"Extraction, rules {rules}, at most {time_limit:g} s; {device}"
    table = new_table(title, *HEADINGS, left=HEADINGS[:1], box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    table.columns[0].min_width, table.columns[0].overflow, table.columns[0].no_wrap = 16, "fold", False
    steps = dict.fromkeys(None if rules == "groups" else k for k in k_multi)
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
                job = {"model": model, "pack": rules, "device": device, "max_nodes": nodes, "path": kept}
                egraphs = (of_model(name, job, k, time_limit) for k in steps)
            for found in egraphs:
                check(found)
                results.add(found)
    for line in lines(results.rows):
        table.add_row(*line)
    priced = any("measured_share" in r for r in results.rows)
    return results.finish(table, [*NOTES, *([results.cost_kind(device)] if priced else [])])


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
    """All measurements of an e-graph in a file. The unit of its costs is not known."""
    from tensat_dl.bench.cells import load

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
    """Calls a function of `cells` with a limit of ``seconds``, in a process of its own.

    The process is killed after twice the limit and a minute for its start. Being killed is an outcome, not an error.
    """
    from tensat_dl.processes import Failed, Overran, apart

    longest = 2 * seconds + 60
    try:
        row: Row = apart(f"tensat_dl.bench.cells:{function}", longest, **job)
        return row
    except Overran:
        return {"status": "killed", "seconds": longest}
    except Failed as e:
        return {"error": str(e)}


def check(rows: Sequence[Row]) -> None:
    """Puts an error into each row whose bound exceeds the cost of another row on the same e-graph."""
    for row in rows:
        same = (r for r in rows if r["cycles"] == row["cycles"] and "cost" in r)
        best = min(same, key=lambda r: float(r["cost"]), default=None)
        if best is not None and "bound" in row and best["cost"] < row["bound"] * (1 - TOLERANCE):
            row["error"] = (
                f"proves that nothing costs less than {row['bound']:.9g} ({row['status']}), "
                f"but {best['method']} found {best['cost']:.9g}"
            )


# ---- the table: a line for each e-graph, a column for each method ---------------------------------------------


def lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    """The cells of each line, for the headings."""
    by_egraph: dict[tuple[str, int | None, str | None], list[Row]] = {}
    for row in rows:
        by_egraph.setdefault((row["model"], row["k_multi"], row["cycles"]), []).append(row)
    for (model, k, cycles), found in by_egraph.items():
        filtered = cycles == "efficient"
        methods = {r["method"]: r for r in found if "method" in r}
        first = found[0]
        if "nodes" in first:
            sizes = [size(first), f"{first['classes']:,}"]
        else:
            sizes = ["failed" if "error" in first else "killed", ""]
        loss = ""
        if filtered:
            kept = (r for r in by_egraph.get((model, k, "none"), ()) if r.get("method") == "exact")
            loss = _loss(next(kept, None), methods.get("exact"))
        yield [
            "- filtered" if filtered else model.rpartition("/")[2],
            "" if filtered or k is None else str(k),
            *sizes,
            *(cell(methods[m]) if m in methods else "" for m in COLUMNS),
            loss,
        ]


def cell(row: Row) -> str:
    """The answer of one method."""
    if "error" in row:
        return "failed"
    if row["status"] == "cyclic":
        return "cyclic"
    seconds = f"({row['seconds']:.2f})" if row["seconds"] < 10 else f"({row['seconds']:.0f})"
    if row["status"] == "killed":
        return f"killed {seconds}"
    cost = f"{row['cost']:.5g}" if row["cycles"] is None else f"{row['cost']:.4f}"
    if row["status"] == "optimal" or row["method"].startswith("greedy"):
        return f"{cost} {seconds}"
    gap = f"{row['gap']:.1%}" if row["gap"] < 0.1 else f"{row['gap']:.0%}"
    return f"{cost} ±{gap} {seconds}"


def _loss(kept: Row | None, filtered: Row | None) -> str:
    """The optimum where cycles were filtered, relative to the other optimum; if one is not proven, its bounds."""
    if kept is None or filtered is None or not kept.get("cost") or "cost" not in filtered:
        return "-"
    if kept["status"] == filtered["status"] == "optimal":
        return f"{filtered['cost'] / kept['cost']:.3f}"
    most = f"{filtered['cost'] / kept['bound']:.2f}" if kept["bound"] > 0 else "∞"
    return f"{filtered['bound'] / kept['cost']:.2f}–{most}"
