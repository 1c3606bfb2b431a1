"""``tensat-dl bench models`` and ``bench depth``: whole runs, each by ``tensat-dl run`` in a process of its own.

Seconds and megabytes per layer of deep graphs should not depend on the number of layers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from tensat_dl import resources
from tensat_dl.bench.common import (
    MODELS,
    Results,
    Row,
    cost,
    device_option,
    json_option,
    models_argument,
    new_table,
    number_option,
    path_of,
    where_of,
    where_options,
)
from tensat_dl.core.words import plural
from tensat_dl.extract.extraction import TOLERANCE

KINDS = ("encoder", "resnext", "bert")
PHASES = ("parse", "explore", "cost", "extract", "verify")
SIZES = ("nodes", "e-nodes", "classes", "iters", "stop")

#: E-nodes that each layer is allowed.
NODES_PER_LAYER = 2_000

#: Runs the command line and writes down the memory that this process and the worker took at most.
RUNNER = """
import json, resource, sys
from tensat_dl.__main__ import command
try:
    sys.argv[0] = "tensat-dl"
    command()
finally:
    peak = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    json.dump(peak, open(sys.argv[-1] + ".peak", "w"))
"""


@click.command("models")
@models_argument
@number_option("--k-multi", 1, least=0)
@device_option
@where_options
@json_option
def models(
    models: tuple[str, ...],
    k_multi: int,
    device: str,
    jobs: int | None,
    ray: str | None,
    json_path: str | None,
) -> int:
    """Every model through the whole pipeline: sizes, rounds, seconds per phase, cost before and after; and what
    another run gains from the answer, which should be 0."""
    models = models or MODELS
    results = Results("models", json_path, models, where=where_of(jobs, ray))
    headings = (
        "model",
        *SIZES,
        "rounds",
        *PHASES,
        "total",
        "wall",
        "before",
        "after",
        "faster",
        "gap",
        "again",
    )
    title = f"k_multi {k_multi}, {device}; costs in ms, times in seconds"
    table = new_table(title, *headings, left=("model", "stop"))
    options = ["--k-multi", str(k_multi), "--device", device]
    variants = [{"model": model, "path": str(path_of(model).resolve())} for model in models]
    for row in results.measure("tensat_dl.bench.whole_runs:twice", variants, None, options=options):
        if "error" in row:
            continue
        table.add_row(
            row["model"],
            *_sizes(row),
            str(row["rounds"]),
            *(f"{row['seconds'][phase]:.2f}" for phase in (*PHASES, "total", "wall")),
            f"{row['before']:.4f}",
            f"{row['after']:.4f}",
            f"{row['before'] / row['after']:.2f}x",
            "0" if row["status"] == "optimal" else f"{row['gap']:.1%}",
            again(row),
        )
    done = [r for r in results.rows if "error" not in r]
    total = sum(r["seconds"]["wall"] for r in done)
    notes = [f"{len(done)} {plural(len(done), 'model')} in {total:.1f} s.", results.cost_kind(device)]
    return results.finish(table, notes)


@click.command("depth")
@click.argument("models", nargs=-1, type=click.Choice(KINDS), metavar="[encoder|resnext|bert]...")
@number_option("--layers", (8, 24, 96), "A number of layers; may be repeated.")
@number_option("--width", 128)
@number_option("--tokens", 64)
@click.option(
    "--no-verify",
    "verify",
    is_flag=True,
    callback=lambda context, parameter, given: not given,
    help="Do not verify the applied rules and the optimized graphs.",
)
@device_option
@where_options
@json_option
def depth(
    models: tuple[str, ...],
    layers: tuple[int, ...],
    width: int,
    tokens: int,
    verify: bool,
    device: str,
    jobs: int | None,
    ray: str | None,
    json_path: str | None,
) -> int:
    """Deep graphs: time and memory by the number of layers.

    The models are encoder (attention with softmax, biases, residuals and layer normalisation), resnext (grouped
    convolutions with residuals) and bert (the linear graph of the paper's benchmark). --width and --tokens set the
    size of the transformers; memory for verification grows with the weights. Each graph is run by ``tensat-dl run``
    in a process of its own, with an e-node limit in proportion to its layers.
    """
    results = Results("depth", json_path, where=where_of(jobs, ray))
    measures = ("wall", "ms/layer", "MB", "worker MB", "KB/layer", "before", "after", "verdict")
    title = f"width {width}, {tokens} tokens, {device}; times in seconds, costs in ms"
    table = new_table(title, "model", "layers", *SIZES, *PHASES, *measures, left=("model", "stop"))
    options = ["--device", device, *([] if verify else ["--no-verify"])]
    variants = [{"model": model, "layers": number} for model in models or KINDS for number in layers]
    sizes = {"width": width, "tokens": tokens, "options": options}
    for row in results.measure("tensat_dl.bench.whole_runs:deep", variants, None, **sizes):
        table.add_row(row["model"], str(row.get("layers", "")), *_deep(row))
    return results.finish(table, [results.cost_kind(device)])


def text(model: str, layers: int, width: int, tokens: int) -> str:
    """The model with so many layers, made from the example of its kind."""

    def example(name: str) -> str:
        return (resources.examples() / f"{name}.tsr").read_text(encoding="utf-8")

    if model == "encoder":
        source = example("bert_encoder").replace("f32[128, 768]", f"f32[{tokens}, {width}]")
        return source.replace("0..12", f"0..{layers}").replace("inner = 3072", f"inner = {4 * width}")
    if model == "bert":
        source = example("bert").replace("f32[64, 1024]", f"f32[{tokens}, {width}]")
        heads = f"heads = {max(1, width // tokens)}"
        return source.replace("0..8", f"0..{layers}").replace("heads = 16", heads)
    source = example("resnext50")
    head = source[: source.index("/// ResNeXt-50")]
    return f"""{head}
graph resnext {{
  input image : f32[1, {2 * width}, 14, 14]
  x = stage(image; blocks = {layers}, width = {width}, stride = 1)
  output x
}}
"""


def twice(model: str, path: str, options: list[str]) -> Row:
    """The row of a model: one run, and as ``again`` the cost of its answer after another run, with the same rules."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.tsr"
        first = run(Path(path), [*options, "-o", str(answer)])
        second = first if "error" in first else run(answer, [*options, "--rules", path, "--no-verify"])
    row = second if "error" in second else {**first, "again": second["after"]}
    row.pop("megabytes", None)
    return {"model": model, **row}


def deep(model: str, layers: int, width: int, tokens: int, options: list[str]) -> Row:
    """The row of a deep graph."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{model}_{layers}.tsr"
        file.write_text(text(model, layers, width, tokens), encoding="utf-8")
        nodes = str(max(50_000, NODES_PER_LAYER * layers))
        return {"model": model, "layers": layers, **run(file, [*options, "--max-nodes", nodes])}


def again(row: Row) -> str:
    """The share of its cost that another run takes off an answer."""
    gain = 1 - row["again"] / row["after"]
    return "0" if gain <= TOLERANCE else f"{gain:.1%}"


def run(model: Path, options: list[str]) -> Row:
    """One run: its wall-clock seconds including the start of Python, and the peak memory of its two processes in
    MB."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-P",
            "-c",
            RUNNER,
            "run",
            str(model),
            "-q",
            *options,
            "--json",
            str(report),
        ]
        started = time.perf_counter()
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        wall = time.perf_counter() - started
        if done.returncode:
            return {"error": done.stderr.strip() or f"exit code {done.returncode}"}
        found = json.loads(report.read_text(encoding="utf-8"))
        own, worker = json.loads(Path(f"{report}.peak").read_text(encoding="utf-8"))
    return {
        "operators": sum(found["operators"]["before"].values()),
        "nodes": found["egraph"]["nodes"],
        "classes": found["egraph"]["classes"],
        "iterations": len(found["iterations"]),
        "stop": found["stop"],
        "rounds": found["rounds"]["count"],
        "seconds": {**found["time"], "wall": wall},
        "megabytes": {"own": own / 1024, "worker": worker / 1024},
        "before": found["cost"]["before"],
        "after": found["cost"]["after"],
        "measured_share": found["cost"]["measured_share"],
        "status": found["extract"]["status"],
        "gap": found["extract"]["gap"],
        "verified": found["verify"]["status"],
    }


def _sizes(row: Row) -> list[str]:
    """The cells of `SIZES`."""
    sizes = [f"{row[name]:,}" for name in ("operators", "nodes", "classes")]
    return [*sizes, str(row["iterations"]), row["stop"]]


def _deep(row: Row) -> list[str]:
    """The cells of a deep graph after its layers."""
    if "error" in row:
        return ["failed"]
    memory, wall = row["megabytes"], row["seconds"]["wall"]
    return [
        *_sizes(row),
        *(f"{row['seconds'][phase]:.2f}" for phase in PHASES),
        f"{wall:.2f}",
        f"{1000 * wall / row['layers']:.0f}",
        f"{memory['own']:.0f}",
        f"{memory['worker']:.0f}",
        f"{1024 * sum(memory.values()) / row['layers']:.0f}",
        f"{row['before']:.4f}",
        cost(row),
        row["verified"] or "-",
    ]
