"""``tensat-dl bench depth``: deep graphs through the whole pipeline. Seconds and megabytes per layer should not
depend on the number of layers."""

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
    Report,
    Row,
    check_json,
    cost,
    cost_kind,
    device_option,
    finish,
    json_option,
    machine,
)

KINDS = ("encoder", "resnext", "bert")
PHASES = ("parse", "explore", "cost", "extract", "verify")

#: E-nodes that each layer is allowed.
NODES_PER_LAYER = 2_000

#: Runs the command line and writes down the memory that this process and the worker took at most.
RUNNER = """
import json, resource, sys
from tensat_dl.cli.main import main
try:
    sys.argv[0] = "tensat-dl"
    main()
finally:
    peak = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    json.dump(peak, open(sys.argv[-1] + ".peak", "w"))
"""


@click.command("depth")
@click.argument("models", nargs=-1, type=click.Choice(KINDS), metavar="[encoder|resnext|bert]...")
@click.option(
    "--layers",
    multiple=True,
    type=click.IntRange(1),
    default=(8, 24, 96),
    show_default=True,
    metavar="N",
    help="A number of layers; may be repeated.",
)
@click.option("--width", default=128, show_default=True, type=click.IntRange(1), metavar="N")
@click.option("--tokens", default=64, show_default=True, type=click.IntRange(1), metavar="N")
@click.option("--no-verify", is_flag=True, help="Do not execute the graphs against each other.")
@device_option
@json_option
def command(
    models: tuple[str, ...],
    layers: tuple[int, ...],
    width: int,
    tokens: int,
    no_verify: bool,
    device: str,
    json_path: str | None,
) -> int:
    """Deep graphs: time and memory by the number of layers.

    The models are encoder (attention with softmax, biases, residuals and layer normalisation), resnext (grouped
    convolutions with residuals) and bert (the linear graph of the paper's benchmark). --width and --tokens set the
    size of the transformers; memory for verification grows with the weights. Each graph is run by ``tensat-dl run``
    in a process of its own, with an e-node limit in proportion to its layers.
    """
    from rich.table import Table

    check_json(json_path)
    table = Table(title=f"width {width}, {tokens} tokens, {device}; times in seconds, costs in ms")
    for heading in ("model", "layers", "nodes", "e-nodes", "classes", "iters", "stop", *PHASES, "wall"):
        table.add_column(heading, justify="left" if heading in ("model", "stop") else "right")
    for heading in ("ms/layer", "MB", "worker MB", "KB/layer", "before", "after", "verdict"):
        table.add_column(heading, justify="right")
    options = ["--device", device, *(["--no-verify"] if no_verify else [])]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models or KINDS:
            for number in layers:
                file = Path(folder) / f"{model}_{number}.tsr"
                file.write_text(text(model, number, width, tokens), encoding="utf-8")
                row = {"model": model, "layers": number, **run(file, number, options)}
                rows.append(row)
                table.add_row(*cells(row))
    given = {
        "layers": list(layers),
        "width": width,
        "tokens": tokens,
        "verify": not no_verify,
        "device": device,
    }
    report = Report("depth", given, machine(), rows)
    return finish(report, table, [cost_kind(rows, device)], json_path)


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


def run(file: Path, layers: int, options: list[str]) -> Row:
    """One run: its wall-clock seconds, and the peak memory of its two processes in MB."""
    report = file.with_suffix(".json")
    nodes = str(max(50_000, NODES_PER_LAYER * layers))
    command = [sys.executable, "-c", RUNNER, "run", str(file), "-q", *options]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--max-nodes", nodes, "--json", str(report)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - started
    if not report.exists():
        return {"error": done.stderr.strip() or f"exit code {done.returncode}"}
    found = json.loads(report.read_text(encoding="utf-8"))
    own, worker = json.loads(Path(f"{report}.peak").read_text(encoding="utf-8"))
    return {
        "operators": sum(found["operators"]["before"].values()),
        "nodes": found["egraph"]["nodes"],
        "classes": found["egraph"]["classes"],
        "iterations": len(found["iterations"]),
        "stop": found["stop"],
        "seconds": {**found["time"], "wall": wall},
        "megabytes": {"own": own / 1024, "worker": worker / 1024},
        "before": found["cost"]["before"],
        "after": found["cost"]["after"],
        "measured_share": found["cost"]["measured_share"],
        "status": found["extract"]["status"],
        "gap": found["extract"]["gap"],
        "verified": found["verify"]["status"],
    }


def cells(row: Row) -> list[str]:
    start = [row["model"], str(row["layers"])]
    if "error" in row:
        return [*start, "failed"]
    memory, wall = row["megabytes"], row["seconds"]["wall"]
    return [
        *start,
        f"{row['operators']:,}",
        f"{row['nodes']:,}",
        f"{row['classes']:,}",
        str(row["iterations"]),
        row["stop"],
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
