"""``tensat-dl bench gpu``: latency on a GPU, against the paper's method, torch and torch.compile."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from tensat_dl.bench.common import (
    MODELS,
    Results,
    Row,
    device_option,
    earlier,
    json_option,
    measure_all,
    models_argument,
    new_table,
    no_results,
    number_option,
    say,
    seconds_option,
)
from tensat_dl.bench.gpu_cell import GRAPHS, MODES, circumstances, digest, file_of

#: Models beside those of the paper.
MORE = ("bert_encoder", "gpt_block", "gpt_decode", "llama_block")
#: Those of a single sequence: they have no dimension for a batch.
SEQUENCES = ("bert", *MORE)


@click.command("gpu")
@models_argument
@click.option("--dtype", default="f32", show_default=True, type=click.Choice(("f32", "f16", "bf16")))
@number_option("--batch", 1, "Size of a batch, for models with a dimension for that.")
@click.option("--prepare", metavar="FOLDER", help="Only write the graphs to be timed. Needs no GPU.")
@click.option(
    "--graphs",
    metavar="FOLDER",
    help="Time the graphs that --prepare wrote. Needs neither engine nor solver.",
)
@click.option(
    "--torch",
    "modes",
    default=",".join(MODES),
    show_default=True,
    metavar="MODES",
    help="What to compare with.",
)
@seconds_option("--time-limit", 60.0, "Seconds to explore, and to extract.")
@seconds_option(
    "--patience", 600.0, "Seconds for the graphs of a model, and for each way in which torch compiles them."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Keep results in the --json file for the same graphs, GPU and profile.",
)
@device_option
@json_option
def command(
    models: tuple[str, ...],
    dtype: str,
    batch: int,
    prepare: str | None,
    graphs: str | None,
    modes: str,
    time_limit: float,
    patience: float,
    resume: bool,
    device: str,
    json_path: str | None,
) -> int:
    """Latency of the models on the GPU of this machine.

    Times the original, the graph of the paper's method, ours, ours with fusion, and torch, eager and compiled, on the
    original and on ours. All run as CUDA graphs, in turn. All models are first timed without a compiler, so the run
    can be cut short. See docs/gpu.md.
    """
    if prepare is not None and graphs is not None:
        raise click.UsageError(
            "--prepare and --graphs exclude each other: --graphs reads what --prepare wrote"
        )
    before = earlier(json_path) if resume else None
    compared = [m for m in modes.split(",") if m]
    if unknown := set(compared) - set(MODES):
        raise click.UsageError(f"--torch takes some of {', '.join(MODES)}, not {min(unknown)}")
    chosen = models or tuple(m for m in (*MODELS, *MORE) if batch == 1 or m not in SEQUENCES)
    kept = graphs or prepare
    files = [str(file_of(kept, m, g)) for m in chosen for g in GRAPHS if kept]
    options = {"dtype": dtype, "batch": batch, "device": device, "torch": compared}
    results = Results("gpu", json_path, (*chosen, *files), options)
    here = circumstances() if prepare is None else None
    rows = {} if before is None else _done(json_path, before, options, graphs is None)
    rows = {model: rows.get(model, {"model": model}) for model in chosen}
    for row in rows.values():
        row.pop("error", None)
    results.rows += rows.values()
    interrupted = False
    changed: dict[str, set[str]] = {}
    with nullcontext(kept) if kept else tempfile.TemporaryDirectory() as folder:
        assert folder is not None
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            for model, row in rows.items():
                if graphs is not None:
                    _found(graphs, row)
                elif "costs" not in row or _missing(folder, row):
                    limits = {"dtype": dtype, "batch": batch, "device": device, "limit": time_limit}
                    job = {"model": model, "folder": folder}
                    (answer,) = measure_all("tensat_dl.bench.gpu_cell:prepare", [job], 3600.0, **limits)
                    row.update(answer)
                if here is not None and "error" not in row:
                    changed.update(_of(row, {"graphs": digest(folder, model), **here}))
                results.keep()
            if changed:
                what = " and ".join(
                    CIRCUMSTANCES[c] for c in CIRCUMSTANCES if c in set().union(*changed.values())
                )
                click.echo(f"{json_path}: measured anew, with other {what}: {', '.join(changed)}", err=True)
            for model, stage in [] if prepare is not None else _left(rows, compared):
                _take(rows[model], stage, folder, "eager" in compared, patience)
                results.keep()
        except KeyboardInterrupt:
            interrupted = True
    for row in rows.values():
        if why := [f"{stage}: {message}" for stage, message in row.get("failed", {}).items()]:
            row["error"] = "; ".join(why)
    columns = [*GRAPHS, *(f"{g}, {m}" for g in ("original", "ours") for m in compared)]
    kind = "estimated" if prepare is not None else "measured as whole graphs"
    columns = list(GRAPHS) if prepare is not None else columns
    table = new_table(f"{dtype}, batch {batch}; milliseconds", "model", *columns, left=("model", *columns))
    for model, row in rows.items():
        if "cells" in row:
            table.add_row(model, *(_cell(row, name) for name in columns))
        elif "costs" in row:
            table.add_row(model, *(f"{row['costs'][n]:.4f}" if n in row["costs"] else "" for n in columns))
    code = results.finish(table, [f"Milliseconds are {kind}."])
    return 130 if interrupted else code


#: The results of a model depend on these. They are dropped where one has changed.
CIRCUMSTANCES = {"graphs": "graphs", "gpu": "hardware or versions", "profile": "measured operators"}
#: Those results, in its row.
RESULTS = ("cells", "done", "failed", "hardware", "versions", "profile")


def _of(row: Row, now: Mapping[str, str]) -> dict[str, set[str]]:
    """Records the circumstances of a row's results, and drops results from other circumstances. Returns, by model,
    the changed circumstances of dropped results."""
    before = row.get("of", {})
    row["of"] = dict(now)
    if before == now:
        return {}
    dropped = [row.pop(name) for name in RESULTS if name in row]
    return {row["model"]: {c for c in now if before.get(c) != now[c]}} if dropped else {}


#: The stage of `time_graphs`, which comes before the modes of torch's compiler.
FIRST = "graphs"


def _left(rows: Mapping[str, Row], compared: Sequence[str]) -> list[tuple[str, str]]:
    """The remaining stages, each with its model: first all graphs, then one mode of the compiler after the other,
    last the stages that failed before."""
    stages = [FIRST, *(m for m in compared if MODES[m] is not None)]
    left = [
        (model, stage)
        for stage in stages
        for model, row in rows.items()
        if "error" not in row and stage not in row.get("done", ())
    ]
    return sorted(left, key=lambda item: item[1] in rows[item[0]].get("failed", {}))


def _take(row: Row, stage: str, folder: str, eager: bool, patience: float) -> None:
    """Adds the results of a stage to a row, or the reason for its failure."""
    from tensat_dl.processes import Failed, apart

    say({"model": row["model"], "method": stage})
    job: dict[str, Any] = {"model": row["model"], "folder": folder, "seed": 0}
    try:
        if stage == FIRST:
            answer = apart("tensat_dl.bench.gpu_cell:time_graphs", patience, eager=eager, **job)
        else:
            answer = apart("tensat_dl.bench.gpu_cell:time_compiled", patience, mode=stage, **job)
    except Failed as e:
        row.setdefault("failed", {})[stage] = str(e)
        return
    row["cells"] = {**row.get("cells", {}), **answer.pop("cells")}
    row.update(answer)
    row.setdefault("done", []).append(stage)
    row.get("failed", {}).pop(stage, None)


def _found(folder: str, row: Row) -> None:
    """Notes in a row that the folder lacks its graphs, if it does."""
    if missing := _missing(folder, row):
        row["error"] = f"{folder} has no {missing[0]} graph of this model; see --prepare"


def _missing(folder: str, row: Row) -> list[str]:
    """The graphs of a row's model that the folder lacks."""
    return [g for g in GRAPHS if not file_of(folder, row["model"], g).is_file()]


def _done(path: str | None, before: Row, options: Mapping[str, Any], prepares: bool) -> dict[str, Row]:
    """The rows of an earlier run, by model. If this run makes graphs, both are for the same device. Raises
    `click.UsageError`."""
    try:
        names = ("dtype", "batch", "device") if prepares else ("dtype", "batch")
        was = {k: before["options"][k] for k in names}
        found = {str(r["model"]): r for r in before["rows"] if before["benchmark"] == "gpu"}
    except (KeyError, TypeError):
        raise no_results(path) from None
    if changed := [k for k, v in was.items() if v != options[k]]:
        raise click.UsageError(f"{path} is of {changed[0]} {was[changed[0]]}, so it can't be resumed")
    return found


def _cell(row: Row, name: str) -> str:
    cell = row["cells"].get(name, {})
    if "median_ms" not in cell:
        why: str = cell.get("error") or row.get("failed", {}).get(name.split(", ")[-1], "")
        return why[:30]
    faster = f" ({1 / cell['ratio']['median']:.2f}x)" if "ratio" in cell else ""
    return f"{cell['median_ms']:.4f}{faster}"
