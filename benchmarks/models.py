"""Every example model through the whole pipeline: ``python benchmarks/models.py [MODEL...]``.

Prints, per model, source nodes, e-nodes, e-classes, iterations, why exploration stopped, seconds per phase, and
the cost before and after; ``--json FILE`` writes the same. Costs are those of the device's profile where there is
one, else of its roofline (estimated). Each model runs in a process of its own, as ``tensat-dl run`` does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PAPER = (
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
PHASES = ("parse", "explore", "cost", "extract", "verify", "total")


def run(model: str, options: list[str]) -> dict[str, Any]:
    """The JSON report of one run, and its wall-clock seconds including the start of Python."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tensat_dl", "run", str(EXAMPLES / f"{model}.tsr"), "-q"]
        started = time.perf_counter()
        subprocess.run([*command, "--json", str(report), *options], check=True)
        seconds = time.perf_counter() - started
        return {**json.loads(report.read_text()), "wall": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(PAPER), metavar="MODEL")
    parser.add_argument("--k-multi", type=int, default=1)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--json", dest="path", help="write the reports to this file")
    args = parser.parse_args()
    table = Table(title=f"k_multi {args.k_multi}, {args.device}; costs in ms, times in seconds")
    for heading in ("model", "nodes", "e-nodes", "classes", "iters", "stop", *PHASES, "wall"):
        table.add_column(heading, justify="left" if heading in ("model", "stop") else "right")
    for heading in ("before", "after", "faster", "gap"):
        table.add_column(heading, justify="right")
    reports = {}
    for model in args.models:
        r = reports[model] = run(model, ["--k-multi", str(args.k_multi), "--device", args.device])
        cost, found = r["cost"], r["extract"]
        table.add_row(
            model,
            str(sum(r["operators"]["before"].values())),
            f"{r['egraph']['nodes']:,}",
            f"{r['egraph']['classes']:,}",
            str(len(r["iterations"])),
            r["stop"],
            *(f"{r['time'][phase]:.2f}" for phase in PHASES),
            f"{r['wall']:.2f}",
            f"{cost['before']:.4f}",
            f"{cost['after']:.4f}",
            f"{cost['before'] / cost['after']:.2f}x",
            "0" if found["status"] == "optimal" else f"{found['gap']:.1%}",
        )
    Console(width=200).print(table)
    total = sum(r["wall"] for r in reports.values())
    measured = {r["cost"]["measured_share"] for r in reports.values()}
    kind = "estimated (roofline)" if measured == {0.0} else "partly measured"
    print(f"{len(reports)} models in {total:.1f} s; costs are {kind} for {args.device}")
    if args.path:
        Path(args.path).write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
