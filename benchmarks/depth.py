"""Deep graphs through the whole pipeline: ``python benchmarks/depth.py [MODEL...] --layers 8 24 96``.

Seconds and megabytes per layer should not depend on the number of layers. Each graph is written to a file and run
by ``tensat-dl run`` in a process of its own, with an e-node limit in proportion to its layers. The models are
`encoder` (attention with softmax, biases, residuals and layer normalisation), `resnext` (grouped convolutions with
residuals) and `bert` (the linear graph of the paper's benchmark). ``--width`` and ``--tokens`` set the size of the
transformers; memory for verification grows with the weights. ``--json FILE`` writes the numbers. Costs are those of
the device's profile where there is one, else of its roofline (estimated).
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
MODELS = ("encoder", "resnext", "bert")
PHASES = ("parse", "explore", "cost", "extract", "verify")

#: E-nodes that each layer is allowed.
NODES_PER_LAYER = 2_000

#: Runs the command line and adds to its report the memory that this process and the worker took at most.
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


def text(model: str, layers: int, width: int, tokens: int) -> str:
    """The model with so many layers, made from the example of its kind."""
    if model == "encoder":
        source = (EXAMPLES / "bert_encoder.tsr").read_text()
        source = source.replace("f32[128, 768]", f"f32[{tokens}, {width}]")
        return source.replace("0..12", f"0..{layers}").replace("inner = 3072", f"inner = {4 * width}")
    if model == "bert":
        source = (EXAMPLES / "bert.tsr").read_text()
        source = source.replace("f32[64, 1024]", f"f32[{tokens}, {width}]")
        return source.replace("0..8", f"0..{layers}").replace("heads = 16", f"heads = {width // tokens}")
    source = (EXAMPLES / "resnext50.tsr").read_text()
    head = source[: source.index("/// ResNeXt-50")]
    return f"""{head}
graph resnext {{
  input image : f32[1, {2 * width}, 14, 14]
  x = stage(image; blocks = {layers}, width = {width}, stride = 1)
  output x
}}
"""


def run(file: Path, layers: int, options: list[str]) -> dict[str, Any]:
    """The JSON report of one run, its wall-clock seconds and the peak memory of its two processes in MB."""
    report = file.with_suffix(".json")
    command = [sys.executable, "-c", RUNNER, "run", str(file), "-q", *options]
    command += ["--max-nodes", str(max(50_000, NODES_PER_LAYER * layers)), "--json", str(report)]
    started = time.perf_counter()
    ended = subprocess.run(command)
    wall = time.perf_counter() - started
    if not report.exists():
        sys.exit(f"{file.name} failed with status {ended.returncode}")
    own, worker = json.loads(Path(f"{report}.peak").read_text())
    return {**json.loads(report.read_text()), "wall": wall, "mb": own / 1024, "worker_mb": worker / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--layers", type=int, nargs="+", default=[8, 24, 96])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--keep", help="write the graphs to this folder")
    parser.add_argument("--json", dest="path", help="write the reports to this file")
    args = parser.parse_args()
    options = ["--device", args.device, *(["--no-verify"] if args.no_verify else [])]
    title = f"width {args.width}, {args.tokens} tokens, {args.device}; times in seconds, costs in ms"
    table = Table(title=title)
    for heading in ("model", "layers", "nodes", "e-nodes", "classes", "iters", "stop", *PHASES, "wall"):
        table.add_column(heading, justify="left" if heading in ("model", "stop") else "right")
    for heading in ("ms/layer", "MB", "worker MB", "KB/layer", "before", "after", "gap", "verdict"):
        table.add_column(heading, justify="right")
    reports: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.keep or temporary)
        folder.mkdir(exist_ok=True)
        for model in args.models:
            for layers in args.layers:
                file = folder / f"{model}_{layers}.tsr"
                file.write_text(text(model, layers, args.width, args.tokens))
                r = reports[f"{model}_{layers}"] = run(file, layers, options)
                cost, found = r["cost"], r["extract"]
                both = r["mb"] + r["worker_mb"]
                table.add_row(
                    model,
                    str(layers),
                    f"{sum(r['operators']['before'].values()):,}",
                    f"{r['egraph']['nodes']:,}",
                    f"{r['egraph']['classes']:,}",
                    str(len(r["iterations"])),
                    r["stop"],
                    *(f"{r['time'][phase]:.2f}" for phase in PHASES),
                    f"{r['wall']:.2f}",
                    f"{1000 * r['wall'] / layers:.0f}",
                    f"{r['mb']:.0f}",
                    f"{r['worker_mb']:.0f}",
                    f"{1024 * both / layers:.0f}",
                    f"{cost['before']:.4f}",
                    f"{cost['after']:.4f}",
                    "0" if found["status"] == "optimal" else f"{found['gap']:.1%}",
                    "-" if args.no_verify else r["verify"]["status"],
                )
    Console(width=260).print(table)
    if args.path:
        Path(args.path).write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
