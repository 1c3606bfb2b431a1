"""``tensat-dl bench models``: every model through the whole pipeline, each as ``tensat-dl run`` does it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from tensat_dl.bench.common import (
    MODELS,
    Report,
    Row,
    check_json,
    device_option,
    finish,
    json_option,
    machine,
    models_argument,
    path_of,
)

PHASES = ("parse", "explore", "cost", "extract", "verify", "total")


@click.command("models")
@models_argument
@click.option("--k-multi", default=1, show_default=True, type=click.IntRange(0), metavar="N")
@device_option
@json_option
def command(models: tuple[str, ...], k_multi: int, device: str, json_path: str | None) -> int:
    """Every model through the whole pipeline: sizes, seconds per phase, cost before and after."""
    from rich.table import Table

    check_json(json_path, models or MODELS)
    table = Table(title=f"k_multi {k_multi}, {device}; costs in ms, times in seconds")
    for heading in ("model", "nodes", "e-nodes", "classes", "iters", "stop", *PHASES, "wall"):
        table.add_column(heading, justify="left" if heading in ("model", "stop") else "right")
    for heading in ("before", "after", "faster", "gap"):
        table.add_column(heading, justify="right")
    rows = []
    for model in models or MODELS:
        row = run(model, ["--k-multi", str(k_multi), "--device", device])
        rows.append(row)
        if "error" not in row:
            table.add_row(*cells(row))
    done = [r for r in rows if "error" not in r]
    kind = "estimated (roofline)" if all(r["measured_share"] == 0 for r in done) else "partly measured"
    total = sum(r["seconds"]["wall"] for r in done)
    report = Report("models", {"k_multi": k_multi, "device": device}, machine(), rows)
    return finish(
        report, table, [f"{len(done)} models in {total:.1f} s; costs are {kind} for {device}"], json_path
    )


def run(model: str, options: list[str]) -> Row:
    """One run, and its wall-clock seconds including the start of Python."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        arguments = ["run", str(path_of(model)), "-q", "--json", str(path), *options]
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "tensat_dl", *arguments], stderr=subprocess.PIPE, text=True, check=False
        )
        wall = time.perf_counter() - started
        if done.returncode:
            return {"model": model, "error": done.stderr.strip()}
        found = json.loads(path.read_text(encoding="utf-8"))
    return {
        "model": model,
        "operators": sum(found["operators"]["before"].values()),
        "nodes": found["egraph"]["nodes"],
        "classes": found["egraph"]["classes"],
        "iterations": len(found["iterations"]),
        "stop": found["stop"],
        "seconds": {**found["time"], "wall": wall},
        "before": found["cost"]["before"],
        "after": found["cost"]["after"],
        "measured_share": found["cost"]["measured_share"],
        "status": found["extract"]["status"],
        "gap": found["extract"]["gap"],
        "verified": found["verify"]["status"],
    }


def cells(row: Row) -> list[str]:
    return [
        row["model"],
        str(row["operators"]),
        f"{row['nodes']:,}",
        f"{row['classes']:,}",
        str(row["iterations"]),
        row["stop"],
        *(f"{row['seconds'][phase]:.2f}" for phase in (*PHASES, "wall")),
        f"{row['before']:.4f}",
        f"{row['after']:.4f}",
        f"{row['before'] / row['after']:.2f}x",
        "0" if row["status"] == "optimal" else f"{row['gap']:.1%}",
    ]
