"""``tensat-dl bench onnx``: real models, against ONNX Runtime alone and tools that simplify models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from math import exp, log
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
from tensat_dl.bench.onnx_models import INSTALL, ONNX_MODELS, OURS

PEERS_INSTALL = "pip install onnxslim onnxsim"


@click.command("onnx")
@click.argument("models", nargs=-1, type=click.Choice(sorted(ONNX_MODELS)), metavar="[MODEL]...")
@number_option("--threads", 1)
@click.option("--resume", is_flag=True, help="Keep the results of finished models in the --json file.")
@json_option
def command(models: tuple[str, ...], threads: int, resume: bool, json_path: str | None) -> int:
    """Real models: latency in ONNX Runtime as they are, and after tensat-dl, onnxslim and onnxsim.

    Models are files of packages that are installed, and networks of libraries with random weights. ONNX Runtime runs
    all of them at its best level of optimization; all versions of a model take turns in the same processes.
    """
    from tensat_dl.onnx import need_onnx

    before = earlier(json_path) if resume else None
    results = Results("onnx", json_path, options={})
    need_onnx("bench onnx")
    from tensat_dl.bench.onnx_cell import PEERS, installed, measure
    from tensat_dl.processes import Failed

    peers = installed()
    results.options = {"threads": threads, "peers": list(peers)}
    results.machine |= {name: version(name) for name in ("onnxruntime", *peers)}
    chosen = [m for m in ONNX_MODELS if m in models] or list(ONNX_MODELS)
    missing = [m for m in chosen if ONNX_MODELS[m].missing]
    if before is not None:
        results.rows += finished(json_path, before, results.options, chosen)
    for name in chosen:
        if name in missing or any(r["model"] == name for r in results.rows):
            continue
        say({"model": name})
        try:
            row = measure(name, ONNX_MODELS[name], threads, peers)
        except Failed as e:
            row = {"model": name, "error": str(e)}
        results.add([row])
    said = notes(results.rows)
    if missing:
        said.append(f"not installed: the models {', '.join(missing)}; {INSTALL}")
    if len(peers) < len(PEERS):
        said.append(f"not installed: {', '.join(p for p in PEERS if p not in peers)}; {PEERS_INSTALL}")
    table = new_table("times as fast as the original in ONNX Runtime, 99% interval", *headings(peers))
    for row in results.rows:
        if "error" not in row:
            table.add_row(*line(row, peers))
    return results.finish(table, said)


def headings(peers: Sequence[str]) -> list[str]:
    return [
        "model",
        "nodes",
        "opaque",
        "original ms",
        "predicted ms",
        "tensat-dl",
        "nodes",
        *peers,
        "agrees",
        "seconds",
    ]


def line(row: Row, peers: Sequence[str]) -> list[str]:
    """A row as text. Speed-ups are with their 99% intervals; an unchanged model is 1.00x."""
    latency, predicted = row["latency"]["original"], row["predicted_ms"]["before"]
    found = row["agreement"][OURS]
    return [
        row["model"],
        str(row["nodes"]["original"]),
        f"{row['opaque'] / max(1, row['operators']):.0%}",
        f"{latency['median_ms']:.2f} ± {latency['iqr_ms']:.2f}",
        f"{predicted:.2f} ({predicted / latency['median_ms'] - 1:+.0%})",
        _cell(row, OURS),
        str(row["nodes"][OURS]),
        *(_cell(row, peer) for peer in peers),
        found["status"] if found["status"] != "agrees" else f"{found['max_rel']:.0e}",
        f"{row['seconds'][OURS]:.0f}",
    ]


def _cell(row: Row, tool: str) -> str:
    """A speed-up with its interval."""
    if tool == OURS and row["answer"] == "original":
        return "1.00x unchanged"
    if tool in row.get("failed", {}):
        return "failed"
    found = row["speedup"].get(tool)
    if found is None:
        return "wrong" if tool in row["agreement"] else "-"
    narrow = " (one size)" if row["agreement"][tool]["status"] == "narrow" else ""
    return f"{found['median']:.2f}x ({found['low']:.2f}-{found['high']:.2f}){narrow}"


def speedup(row: Row, tool: str) -> float | None:
    """The speed-up of a tool's model; None if the tool has no correct model."""
    if tool == OURS and row["answer"] == "original":
        return 1.0
    found = row["speedup"].get(tool)
    return None if found is None else float(found["median"])


def mean(rows: Sequence[Row], tool: str) -> tuple[float, int]:
    """The geometric mean over the models that a tool converted correctly, and their number."""
    found = [s for r in rows if (s := speedup(r, tool)) is not None]
    return (geometric_mean(found) if found else 1.0), len(found)


def notes(rows: Sequence[Row]) -> list[str]:
    done = [r for r in rows if "error" not in r]
    if not done:
        return []
    tools = [OURS, *dict.fromkeys(t for r in done for t in r["speedup"] if t != OURS)]
    means = [(t, *mean(done, t)) for t in tools]
    worse = [
        r["model"]
        for r in done
        if r["answer"] != "original" and r["speedup"].get(OURS, {}).get("high", 1) < 1
    ]
    errors = sorted(
        abs(log(r["predicted_ms"]["before"] / r["latency"]["original"]["median_ms"])) for r in done
    )
    return [
        "geometric mean: " + ", ".join(f"{tool} {m:.3f}x ({count} models)" for tool, m, count in means),
        f"slower than the original: {', '.join(worse) or 'none'}",
        f"predicted latency of the original: median error {exp(errors[len(errors) // 2]) - 1:.0%}",
    ]
