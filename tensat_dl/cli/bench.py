"""``tensat-dl bench``: the benchmarks, a module of `tensat_dl.bench` for each."""

from __future__ import annotations

import click

from tensat_dl.cli.lazy import LazyGroup

#: benchmark -> the module that defines its command, and its line of help
BENCHMARKS = {
    "onnx": ("tensat_dl.bench.onnx", "Real models in ONNX Runtime, against tools that simplify models."),
    "models": ("tensat_dl.bench.models", "The models of the paper through the whole pipeline."),
    "gpu": ("tensat_dl.bench.gpu", "Latency on the GPU of this machine, against torch and torch.compile."),
    "join": (
        "tensat_dl.bench.join",
        "Multi-pattern matching: the paper's algorithm 1 against Datalog joins.",
    ),
    "k-multi": ("tensat_dl.bench.k_multi", "Pairs by k_multi, against group rules."),
    "depth": ("tensat_dl.bench.depth", "Deep graphs: time and memory by the number of layers."),
    "cycles": ("tensat_dl.bench.cycles", "Cycle filters: vanilla, efficient, incremental, none."),
    "extraction": (
        "tensat_dl.bench.extraction",
        "Extraction methods on the same e-graphs: greedy, the paper's programs, exact.",
    ),
}


@click.group("bench", cls=LazyGroup, lazy=BENCHMARKS, subcommand_metavar="NAME [OPTIONS] [MODEL]...")
def command() -> None:
    """Run a benchmark: a table on the terminal and, with --json FILE, a JSON file.

    Models are examples by their names, or paths of .tsr files. Costs are milliseconds from the device's profile
    where there is one, else from its roofline (estimated). Times are this machine's.
    """
