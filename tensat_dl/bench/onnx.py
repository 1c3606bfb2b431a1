"""``tensat-dl bench onnx``: real models, against ONNX Runtime alone and tools that simplify models."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tensat_dl.bench.common import Report, Row, check_json, finish, json_option, machine, say
from tensat_dl.bench.onnx_models import INSTALL, ONNX_MODELS

PEERS_INSTALL = "pip install onnxslim onnxsim"


@click.command("onnx")
@click.argument("models", nargs=-1, type=click.Choice(sorted(ONNX_MODELS)), metavar="[MODEL]...")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), metavar="N")
@click.option("--resume", is_flag=True, help="Keep what the --json file has of models that are done.")
@json_option
def command(models: tuple[str, ...], threads: int, resume: bool, json_path: str | None) -> int:
    """Real models: latency in ONNX Runtime as they are, and after tensat-dl, onnxslim and onnxsim.

    Models are files of packages that are installed, and networks of libraries with random weights. ONNX Runtime runs
    all of them at its best level of optimization; all versions of a model take turns in the same processes.
    """
    from tensat_dl.onnx.installed import need_onnx

    if resume and (json_path is None or json_path == "-"):
        raise click.UsageError("--resume goes on with the results in a file: --json FILE")
    check_json(json_path)
    need_onnx("bench onnx")
    from tensat_dl.apart import Failed
    from tensat_dl.bench.onnx_cell import PEERS, installed, measure
    from tensat_dl.bench.onnx_table import notes, table

    peers = installed()
    chosen = [m for m in ONNX_MODELS if m in models] or list(ONNX_MODELS)
    missing = [m for m in chosen if ONNX_MODELS[m].missing]
    rows = _done(json_path, chosen) if resume else []
    report = Report(
        "onnx", {"threads": threads, "peers": list(peers)}, {**machine(), **_versions(peers)}, rows
    )
    for name in chosen:
        if name in missing or any(r["model"] == name for r in rows):
            continue
        say({"model": name})
        try:
            rows.append(measure(name, ONNX_MODELS[name], threads, peers))
        except Failed as e:
            rows.append({"model": name, "error": str(e)})
        report.keep(json_path)
    said = notes(rows)
    if missing:
        said.append(f"not installed: the models {', '.join(missing)}; {INSTALL}")
    if len(peers) < len(PEERS):
        said.append(f"not installed: {', '.join(p for p in PEERS if p not in peers)}; {PEERS_INSTALL}")
    return finish(report, table(rows, peers), said, json_path)


def _done(path: str | None, chosen: list[str]) -> list[Row]:
    """The rows of an earlier run that need not be measured again. Raises `click.UsageError`."""
    if path is None or not Path(path).exists():
        return []
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))["rows"]
        return [r for r in rows if r["model"] in chosen and "error" not in r]
    except (ValueError, KeyError, TypeError):
        raise click.UsageError(f"{path} is no result of this benchmark, so it can't be resumed") from None


def _versions(peers: tuple[str, ...]) -> Row:
    from importlib.metadata import version

    return {name: version(name) for name in ("onnxruntime", *peers)}
