"""``tensat-dl bench torch``: PyTorch modules as they are, compiled by Inductor, in ONNX Runtime, and optimized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from statistics import geometric_mean

import click

from tensat_dl.bench.common import (
    Results,
    Row,
    earlier,
    finished,
    json_option,
    new_table,
    number_option,
    say,
)
from tensat_dl.bench.torch_models import (
    CONTESTANTS,
    EAGER,
    INDUCTOR,
    INDUCTOR_MAX,
    INSTALL,
    ONNX_RUNTIME,
    OURS,
    TORCH_MODELS,
)

#: Of the columns of `line`.
HEADINGS = (
    *("model", "eager ms", *CONTESTANTS[1:]),
    *("best Inductor", "best rival", "called", "agrees"),
)


@click.command("torch")
@click.argument("models", nargs=-1, type=click.Choice(sorted(TORCH_MODELS)), metavar="[MODEL]...")
@number_option("--threads", 1)
@number_option("--starts", 3, "Start every process so many times.")
@click.option("--resume", is_flag=True, help="Keep the results of finished models in the --json file.")
@json_option
def command(models: tuple[str, ...], threads: int, starts: int, resume: bool, json_path: str | None) -> int:
    """PyTorch modules: latency of calls as they are, compiled by Inductor, in ONNX Runtime, and optimized.

    The modules are those of torchvision, timm and transformers, with random weights. "Inductor max" is
    torch.compile(mode="max-autotune") with frozen weights. ONNX Runtime has the model as torch
    exports it, and reads inputs where they are. tensat-dl is tensat_dl.torch.optimize with frozen weights. The
    outputs of all are new tensors. Each contestant runs in a process of its own; the processes take turns. Models are
    measured in the given order.
    """
    before = earlier(json_path) if resume else None
    options = {"threads": threads, "starts": starts}
    results = Results("torch", json_path, options=options)
    if missing := [m for m in ("torch", "onnxscript", "onnx", "onnxruntime") if find_spec(m) is None]:
        raise click.UsageError(f"bench torch needs {missing[0]}: pip install 'tensat-dl[torch]'")
    chosen = list(dict.fromkeys(models)) or list(TORCH_MODELS)
    absent = [m for m in chosen if TORCH_MODELS[m].missing]
    libraries = {"torch", "onnxruntime"} | {e.library for e in TORCH_MODELS.values() if e.library}
    results.machine |= {name: version(name) for name in sorted(libraries) if find_spec(name) is not None}
    if before is not None:
        results.rows += finished(json_path, before, options, list(TORCH_MODELS))
    from tensat_dl.bench.torch_cell import measure
    from tensat_dl.processes import Failed

    for name in chosen:
        if name in absent or any(r["model"] == name for r in results.rows):
            continue
        say({"model": name})
        try:
            row = measure(name, threads, starts)
        except Failed as e:
            row = {"model": name, "error": str(e)}
        results.add([row])
    done = [r for r in results.rows if "error" not in r]
    said = notes(done)
    if absent:
        said.append(f"not installed: the models {', '.join(absent)}; {INSTALL}")
    table = new_table(
        f"times as fast as eager PyTorch, {threads} {'thread' if threads == 1 else 'threads'}",
        *HEADINGS,
        left=("model", "called"),
    )
    for row in done:
        table.add_row(*line(row))
    return results.finish(table, said)


def line(row: Row) -> list[str]:
    """A row as text. The last two speed-ups are those of tensat-dl over others, with the least and the largest of the
    processes."""
    eager = row["latency"][EAGER]
    return [
        row["model"],
        f"{eager['median_ms']:.2f} ± {eager['iqr_ms']:.2f}",
        *(_by_eager(row, c) for c in CONTESTANTS[1:]),
        _over(row, best(row, (INDUCTOR, INDUCTOR_MAX))),
        _over(row, best(row, CONTESTANTS[:-1])),
        row["called"].partition(":")[0],
        "-" if row["max_rel"][OURS] is None else f"{row['max_rel'][OURS]:.0e}",
    ]


def _by_eager(row: Row, contestant: str) -> str:
    if contestant not in row["latency"]:
        return "failed"
    return f"{row['latency'][EAGER]['median_ms'] / row['latency'][contestant]['median_ms']:.2f}x"


def best(row: Row, rivals: Sequence[str]) -> str | None:
    """The fastest of some contestants that ran; None if none did."""
    ran = [c for c in rivals if c in row["latency"]]
    return min(ran, key=lambda c: float(row["latency"][c]["median_ms"]), default=None)


def _over(row: Row, rival: str | None) -> str:
    if rival is None:
        return "-"
    found = row["speedup"][rival]
    return f"{found['median']:.2f}x ({found['low']:.2f}-{found['high']:.2f})"


def mean(rows: Sequence[Row], rival: Callable[[Row], str | None]) -> tuple[float, int]:
    """The geometric mean of the speed-ups of tensat-dl over a rival in each row, and their number."""
    found = [float(row["speedup"][r]["median"]) for row in rows if (r := rival(row)) is not None]
    return (geometric_mean(found) if found else 1.0), len(found)


def notes(rows: Sequence[Row]) -> list[str]:
    """Means over all models, and those where another is faster."""
    if not rows:
        return []

    def inductor(row: Row) -> str | None:
        return best(row, (INDUCTOR, INDUCTOR_MAX))

    def onnx_runtime(row: Row) -> str | None:
        return best(row, (ONNX_RUNTIME,))

    transformers = [r for r in rows if TORCH_MODELS[r["model"]].transformer]
    others = [r for r in rows if r not in transformers]
    means = [
        ("the better Inductor on transformers", *mean(transformers, inductor)),
        ("the better Inductor on other models", *mean(others, inductor)),
        ("ONNX Runtime", *mean(rows, onnx_runtime)),
        ("eager PyTorch", *mean(rows, lambda row: EAGER)),
    ]
    text = "; ".join(
        f"{found:.2f} times as fast as {what} ({count})" for what, found, count in means if count
    )
    slower = []
    for row in rows:
        rival = best(row, CONTESTANTS[:-1])
        if rival is not None and row["speedup"][rival]["high"] < 1:
            slower.append(f"{row['model']} ({rival}, {1 / row['speedup'][rival]['median']:.2f}x)")
    return [
        f"tensat-dl, geometric means over models: {text}",
        f"another is faster in every process: {', '.join(slower) or 'none'}",
    ]
