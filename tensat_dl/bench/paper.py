"""``tensat-dl bench paper``: the evaluation of the paper, for our search and for those that it compares with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensat_dl.bench.common import (
    Results,
    Row,
    device_option,
    earlier,
    json_option,
    new_table,
    no_results,
    number_option,
    say,
    seconds_option,
)
from tensat_dl.bench.paper_plan import PAPER, QUICK, Plan

if TYPE_CHECKING:
    from rich.table import Table


@click.command("paper")
@click.option("--quick", is_flag=True, help=f"Two models, {' and '.join(QUICK)}, in about ten minutes.")
@number_option("--iterations", 100, "Graphs that backtracking and sampling expand.")
@number_option("--runs", 5, "Runs of the search that draws at random.")
@seconds_option("--time-limit", 60.0, "Search for at most S seconds, extract for S more.")
@device_option
@click.option("--no-cpu", "no_cpu", is_flag=True, help="Do not measure on this machine's CPU.")
@json_option
@click.option("--resume", is_flag=True, help="Keep what the JSON file has, and measure the rest.")
@click.option("--page", metavar="FILE.md", help="Write a page with tables and figures (needs matplotlib).")
@click.option("--no-measure", is_flag=True, help="With --resume: measure nothing more.")
def command(
    quick: bool,
    iterations: int,
    runs: int,
    time_limit: float,
    device: str,
    no_cpu: bool,
    json_path: str | None,
    resume: bool,
    page: str | None,
    no_measure: bool,
) -> int:
    """The evaluation of the TENSAT paper: our search against TASO's backtracking and against sampling, on the same
    costs and rules; costs and whole graphs measured on the CPU; and its ablations.

    Every measurement is kept in the JSON file at once: Ctrl-C loses one at most, and --resume goes on.
    """
    if no_measure and not resume:
        raise click.UsageError("--no-measure is for --resume")
    if page is not None:
        _check_page(page)
    if quick:
        iterations, runs, time_limit = min(iterations, 30), min(runs, 2), min(time_limit, 10.0)
    plan = Plan(QUICK if quick else PAPER, iterations, runs, time_limit, device, not no_cpu)
    asked = {"iterations": iterations, "runs": runs, "time_limit": time_limit, "device": device}
    results = Results("paper", json_path, options={"quick": quick, **asked, "no_cpu": no_cpu})
    if resume and (old := earlier(json_path)) is not None:
        if old.get("benchmark") != "paper" or not all("key" in r for r in old["rows"]):
            raise no_results(json_path)
        results.rows = old["rows"]
        results.machine = old["machine"]
    interrupted = False
    try:
        if not no_measure:
            _measure(plan, results)
    except KeyboardInterrupt:
        interrupted = True
    place = {cell.key: i for i, cell in enumerate(plan.cells())}
    results.rows.sort(key=lambda r: place.get(r["key"], len(place)))
    if page is not None:
        from tensat_dl.bench.paper_page import write_page

        write_page(results.rows, results.machine, list(plan.cells()), Path(page))
    code = results.finish(_table(results.rows), _notes(results, plan, interrupted))
    return 130 if interrupted else code


def _check_page(page: str) -> None:
    from tensat_dl.files import check_writable

    if not page.endswith(".md"):
        raise click.UsageError(f"--page writes Markdown: {page} does not end in .md")
    check_writable([page])
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise click.UsageError("figures need matplotlib: pip install 'tensat-dl[bench]'") from None


def _measure(plan: Plan, results: Results) -> None:
    from tensat_dl.processes import Failed, apart

    done = {r["key"] for r in results.rows if "error" not in r}
    for cell in plan.cells():
        if cell.key in done:
            continue
        head = {"part": cell.part, "key": cell.key, **cell.arguments}
        say({"model": f"{cell.arguments['model']} ({cell.part})", "rules": cell.arguments["pack"]})
        try:
            found = apart(cell.function, cell.limit, **cell.arguments)
        except Failed as e:
            found = {"error": str(e)}
        results.rows = [r for r in results.rows if r["key"] != cell.key]
        results.add([{**found, **head}])


def _table(rows: list[Row]) -> Table:
    """The searches side by side."""
    from tensat_dl.bench.paper_page import searches

    lines = list(searches(rows))
    table = new_table("Searches on the same rules and costs", *lines[0])
    for line in lines[1:]:
        table.add_row(*line)
    return table


def _notes(results: Results, plan: Plan, interrupted: bool) -> list[str]:
    done = {r["key"] for r in results.rows if "error" not in r}
    cells = list(plan.cells())
    count = sum(c.key in done for c in cells)
    text = f"{count} of {len(cells)} measurements are there"
    return [
        f"{text}; interrupted: --resume goes on." if interrupted else f"{text}.",
        results.cost_kind(plan.device),
    ]
