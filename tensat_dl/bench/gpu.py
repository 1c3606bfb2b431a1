"""``tensat-dl bench gpu``: latency on a GPU, against the paper's method, torch and torch.compile."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from tensat_dl.bench.common import (
    MODELS,
    Report,
    Row,
    device_option,
    finish,
    json_option,
    machine,
    measure_all,
    models_argument,
)
from tensat_dl.bench.gpu_cell import GRAPHS, MODES, file_of

#: Models beside those of the paper.
MORE = ("bert_encoder", "gpt_block", "llama_block")
#: A model that takes longer is given up.
PATIENCE = 3600.0


@click.command("gpu")
@models_argument
@click.option("--dtype", default="f32", show_default=True, type=click.Choice(("f32", "f16", "bf16")))
@click.option("--prepare", metavar="FOLDER", help="Only write the graphs that are to be timed. Takes no GPU.")
@click.option(
    "--graphs",
    metavar="FOLDER",
    help="Time the graphs that --prepare wrote. Takes neither engine nor solver.",
)
@click.option(
    "--torch",
    "modes",
    default=",".join(MODES),
    show_default=True,
    metavar="MODES",
    help="What to compare with.",
)
@click.option(
    "--time-limit", default=60.0, show_default=True, metavar="S", help="Seconds to explore, and to extract."
)
@device_option
@json_option
def command(
    models: tuple[str, ...],
    dtype: str,
    prepare: str | None,
    graphs: str | None,
    modes: str,
    time_limit: float,
    device: str,
    json_path: str | None,
) -> int:
    """Latency of the models on the GPU of this machine.

    Original, optimized by the paper's method and by ours, without fusion and with it, beside torch, eager and
    compiled, on the original and on ours. All as CUDA graphs, in turn. See docs/gpu.md.
    """
    from rich.table import Table

    chosen = models or (*MODELS, *MORE)
    compared = [m for m in modes.split(",") if m]
    if unknown := set(compared) - set(MODES):
        raise click.UsageError(f"--torch takes some of {', '.join(MODES)}, not {min(unknown)}")
    if prepare is None:
        from tensat_dl.gpu.environment import this_gpu

        this_gpu()
    columns = (*GRAPHS, *(f"{g}, {m}" for g in ("original", "ours") for m in compared))
    table = Table("model", *(columns if prepare is None else GRAPHS), title=f"{dtype}; milliseconds")
    options = {"dtype": dtype, "device": device, "torch": compared}
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() if not (graphs or prepare) else nullcontext(graphs or prepare) as folder
    ):
        Path(str(folder)).mkdir(parents=True, exist_ok=True)
        for model in chosen:
            job = {"model": model, "folder": str(folder)}
            row: Row = {}
            if graphs is None:
                limits = {"dtype": dtype, "device": device, "limit": time_limit}
                (row,) = measure_all("tensat_dl.bench.gpu_cell:prepare", [job], PATIENCE, **limits)
            elif missing := [g for g in GRAPHS if not file_of(graphs, model, g).is_file()]:
                row = {"model": model, "error": f"{graphs} has no {missing[0]} graph of it; see --prepare"}
            if prepare is None and "error" not in row:
                (row,) = measure_all(
                    "tensat_dl.bench.gpu_cell:time_model", [job], PATIENCE, modes=compared, seed=0
                )
            rows.append(row)
            if "error" not in row:
                table.add_row(model, *(_costs(row) if prepare is not None else _cells(row, columns)))
            Report("gpu", options, machine(), rows).keep(json_path)
    kind = "estimated" if prepare is not None else "measured as whole graphs"
    return finish(Report("gpu", options, machine(), rows), table, [f"Milliseconds are {kind}."], json_path)


def _costs(row: Row) -> list[str]:
    return [f"{row['costs'][name]:.4f}" for name in GRAPHS]


def _cells(row: Row, columns: tuple[str, ...]) -> list[str]:
    cells = []
    for name in columns:
        cell = row["cells"].get(name, {})
        if "median_ms" not in cell:
            cells.append(cell.get("error", "")[:30])
            continue
        cells.append(f"{cell['median_ms']:.4f} ({1 / cell['ratio']['median']:.2f}x)")
    return cells
