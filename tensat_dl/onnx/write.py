"""Writes graphs as models: into the model that they came from, after a comparison with it, or as new models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tensat_dl.core.graph import Graph
from tensat_dl.files import real_path, same_file
from tensat_dl.onnx.agreement import Incomparable, Reference
from tensat_dl.onnx.digests import digest_of_comparison
from tensat_dl.onnx.exporter import build, export
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.model_files import commit, data_files, data_of, external, failed, size_of, staged
from tensat_dl.onnx.open_sizes import weights_vary, wrong
from tensat_dl.onnx.session import NotRunnable, Session
from tensat_dl.ops.table import OpTable
from tensat_dl.sizes.dim_sizes import ranges_in_text
from tensat_dl.sizes.named import OpenGraph
from tensat_dl.verify.equivalence import Agreement
from tensat_dl.verify.weights import draw_values


@dataclass(frozen=True, slots=True)
class Written:
    """How the two models compare, and their bytes. A model that differs is not written. A model that does not hold
    for all sizes holds for ``ranges`` of them, in words."""

    agreement: Agreement
    before: int
    after: int
    ranges: str = ""

    @property
    def wrong(self) -> str:
        """Why it is not written; empty if it is."""
        return self.agreement.message if self.agreement.status in ("differs", "narrow", "broken") else ""


@dataclass(frozen=True, slots=True)
class Fresh:
    """A model that was made of a graph of the language. Open sizes may have become their defaults: ``fixed`` says
    why."""

    fixed: str = ""


def write_back(
    imported: Imported, graph: Graph, output: str, seed: int, known: Agreement | None = None
) -> Written:
    """Writes ``graph``, which is equivalent to the imported graph. The imported graph itself is written as it was
    read.

    The model is compared with the original in ONNX Runtime first, unless the same comparison is ``known``. Raises
    `TsrError`, OSError.
    """
    check_data(imported, output)
    size = size_of(imported.model, imported.path)
    unchanged = graph is imported.graph
    if unchanged:  # beside the original its weights can stay where they are
        beside = real_path(Path(imported.path).parent) == real_path(output).parent
        made = Path(imported.path) if beside or not external(imported.model) else imported.model
    else:
        made = export(imported, graph)
    with staged(made, output) as file:
        if unchanged:  # without the weights a copy of the original's file would not load
            found = _unchanged(made if isinstance(made, Path) else file, output)
        else:
            found = _compared(imported, file, seed, known)
        after = size if unchanged else sum(f.stat().st_size for f in file.parent.iterdir())
        written = Written(found, size, after, "" if unchanged else ranges_in_text(imported.said))
        if not written.wrong:
            commit(file, output)
    return written


def check_data(imported: Imported, output: str) -> None:
    """Raises `TsrError` if writing a model would overwrite weights of the imported one."""
    files = data_files(imported.model)
    data = str(data_of(real_path(output)))
    if any(same_file(data, f) for f in files):
        name = Path(data).name
        message = f"its weights would go to {name}, which holds the weights of {imported.path}"
        raise failed(output, message, "choose another name")
    if any(same_file(output, f) for f in files):
        raise failed(output, f"it holds weights of {imported.path}", "choose another name")


def write_fresh(graph: Graph, ops: OpTable, output: str, seed: int, opened: OpenGraph | None = None) -> Fresh:
    """Writes a graph of the language with random weights. Sizes of the ``opened`` graph stay open if the model then
    computes the same at other sizes in ONNX Runtime; else they have their defaults. Raises `TsrError`, OSError."""
    values = draw_values([graph], seed, {})
    weights = {name: values[name] for name in (str(graph.nodes[i].attr("name")) for i in graph.weights)}
    reason = ""
    if opened is not None:
        reason = weights_vary(opened)
        if not reason:
            with staged(build(graph, ops, weights.__getitem__, opened), output) as file:
                reason = wrong(file, opened, ops, weights, seed)
                if not reason:
                    commit(file, output)
                    return Fresh()
    with staged(build(graph, ops, weights.__getitem__), output) as file:
        commit(file, output)
    return Fresh(reason)


def _unchanged(file: Path, output: str) -> Agreement:
    """A model that is the original agrees with it; one that does not load is not said to."""
    try:
        Session(file, threads=1, optimized=False)
    except NotRunnable as e:
        why = str(e).replace(str(file), output)
        return Agreement("not compared", 0.0, f"ONNX Runtime does not load either of them: {why}")
    return Agreement("agrees", 0.0, "the same model")


def _compared(imported: Imported, file: Path, seed: int, known: Agreement | None) -> Agreement:
    if known is not None and known.of and known.of == digest_of_comparison(imported, seed, file):
        return known
    try:
        reference = Reference.of(imported, seed)
    except Incomparable as e:
        return Agreement("not compared", 0.0, str(e))
    return reference.check(str(file))
