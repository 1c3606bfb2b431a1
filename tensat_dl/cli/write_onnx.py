"""Writes the answer of a run as an ONNX model."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tensat_dl.cli.models import Opened
from tensat_dl.core.graph import Graph

#: Bytes that names and types of values may add to a file before it counts as grown.
NAMES = 1024


@dataclass(frozen=True)
class WrittenModel:
    """The rows of the summary about a written model, as (label, text) pairs, or the reason why it was not written."""

    rows: tuple[tuple[str, str], ...]
    error: str = ""


def write_onnx(opened: Opened, graph: Graph, output: str, seed: int) -> WrittenModel:
    """Writes ``graph``, which is equivalent to the opened graph. A model from a file is first compared with that file
    in ONNX Runtime, and not written if they differ. Raises `TsrError`, OSError."""
    from tensat_dl.onnx.write import write_fresh

    if opened.model is not None:
        return _write_back(opened, graph, output, seed)
    write_fresh(graph, opened.program.ops, output, seed)
    return WrittenModel((("weights", f"random, seed {seed}: a .tsr file has none"),))


def _write_back(opened: Opened, graph: Graph, output: str, seed: int) -> WrittenModel:
    from tensat_dl.onnx.write import write_back
    from tensat_dl.report.facts import agreed, size

    assert opened.model is not None
    written = write_back(opened.model, graph, output, seed)
    found = written.agreement
    if written.wrong:
        return WrittenModel((), written.wrong)
    rows = []
    if found.status == "agrees":
        rows.append(("onnx runtime", agreed(found)))
    else:
        print(f"warning: {output} is not compared with the original: {found.message}", file=sys.stderr)
    if written.after > written.before + NAMES:
        rows.append(("model size", f"{size(written.before)} -> {size(written.after)}"))
    return WrittenModel(tuple(rows))
