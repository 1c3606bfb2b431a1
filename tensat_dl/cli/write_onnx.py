"""Writes the answer of a run as an ONNX model."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tensat_dl.cli.models import Opened, need_onnx
from tensat_dl.ir.graph import Graph

#: What names and stated types of values may add to a file without being called growth, in bytes.
NAMES = 1024


@dataclass(frozen=True)
class Written:
    """Whether a model was written, and what there is to say about it: (label, text) pairs."""

    done: bool
    rows: tuple[tuple[str, str], ...]
    error: str = ""


def write_onnx(opened: Opened, graph: Graph, output: str, seed: int) -> Written:
    """Writes ``graph``, which is equivalent to the one that was opened. A model that came from a file is compared
    with that file in ONNX Runtime first, and not written if they differ. Raises `TsrError`, OSError."""
    need_onnx(output)
    from tensat_dl.onnx.fresh import build, random_weights
    from tensat_dl.onnx.staging import staged

    if opened.model is not None:
        return _write_back(opened, graph, output, seed)
    made = build(graph, opened.program.ops, random_weights(graph, seed))
    with staged(made, output) as file:
        file.commit()
    return Written(True, (("weights", f"random, seed {seed}: a .tsr file has none"),))


def _write_back(opened: Opened, graph: Graph, output: str, seed: int) -> Written:
    from tensat_dl.onnx.agreement import agreement
    from tensat_dl.onnx.exporter import export
    from tensat_dl.onnx.staging import size_of, staged
    from tensat_dl.report.facts import size

    model = opened.model
    assert model is not None
    exported = export(model, graph)
    with staged(exported, output) as file:
        found = agreement(model.model, model.path, str(file.path), model.dims, seed)
        if found.status == "differs":
            return Written(False, (), found.message)
        before, after = size_of(model.model, model.path), file.size
        file.commit()
    rows = []
    if found.status == "agrees":
        inputs = f"random inputs, seed {seed}"
        rows.append(("onnx runtime", f"agrees: largest error {found.max_rel:.1e} relative, {inputs}"))
    else:
        print(f"warning: {output} is not compared with the original: {found.message}", file=sys.stderr)
    if after > before + NAMES:
        rows.append(("model size", f"{size(before)} -> {size(after)}"))
    return Written(True, tuple(rows))
