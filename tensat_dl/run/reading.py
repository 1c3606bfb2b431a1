"""Reads what is to be optimized: .tsr files and ONNX models, from paths or from what was read already."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import IO

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.core.words import did_you_mean
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.load import text_source
from tensat_dl.lang.named_sizes import graph_of, open_graph
from tensat_dl.lang.program import Program, load_program
from tensat_dl.onnx import need_onnx
from tensat_dl.run.model import Model
from tensat_dl.sizes.dim_sizes import dim_sizes

#: Told of warnings.
Warn = Callable[[Diagnostic], None]


def choose_graph(program: Program, name: str | None, warn: Warn | None = None) -> Graph:
    """The graph called ``name``, or the only one; at its default sizes, if it has any. Raises `TsrError`."""
    item = program.graphs[_chosen(program, name, "--graph NAME")]
    return graph_of(item, program.ops, program.blocks, warn)


def _chosen(program: Program, name: str | None, option: str) -> str:
    """``name`` if a graph is called so, or the name of the only one. ``option`` is how a user names one. Raises
    `TsrError`."""
    graphs = program.graphs
    if name is None and len(graphs) != 1:
        known = ", ".join(graphs)
        message = "the file has no graph" if not graphs else f"the file has {len(graphs)} graphs: {known}"
        hint = "write `graph name { ... }`" if not graphs else f"choose one with {option}"
        raise TsrError([Diagnostic(message, None, hint, path=program.path)])
    if name is not None and name not in graphs:
        hint = did_you_mean(name, graphs) or (
            f"the file has {', '.join(graphs)}" if graphs else "it has none"
        )
        raise TsrError([Diagnostic(f"no graph `{name}`", None, hint, path=program.path)])
    return name if name is not None else next(iter(graphs))


def contents(source: str | PathLike[str] | IO[str] | IO[bytes]) -> tuple[str, str | bytes | None]:
    """What messages call a source, and the contents of an open file; None for a path, which is to be read yet. Raises
    TypeError, and ValueError for a text in place of a path, and for a .tsr file that gives bytes."""
    if isinstance(source, str | PathLike):
        path = fspath(source)
        if "\n" in path:
            raise ValueError("the name of a file has no line ends: a text is given as load(text=..)")
        return path, None
    if not hasattr(source, "read"):
        raise TypeError(f"a path or an open file is needed, not {type(source).__name__}")
    name, content = getattr(source, "name", None), source.read()
    name = name if isinstance(name, str) else "<file>"
    if isinstance(content, bytes) and name.lower().endswith(".tsr"):
        raise ValueError(f"{name} is open in binary mode, as for ONNX models: open it in text mode")
    return name, content


def read_tsr(
    file: str,
    graph: str | None,
    packs: Sequence[str],
    text: str | None = None,
    *,
    dims: Mapping[str, object] | None = None,
    option: str = "--graph NAME",
    warn: Warn | None = None,
) -> Model:
    """The graph of this name, or the only one, of a file; or of a ``text``, which messages call ``file``. It has the
    rules of ``packs``, too. ``dims`` says sizes of its names in place of the defaults. Raises `TsrError`, and
    TypeError and ValueError for what is no size."""
    program = load_program(file, packs, None if text is None else text_source(file, text))
    source = file if text is None or Path(file).is_file() else "-"
    item = program.graphs[_chosen(program, graph, option)]
    said = dim_sizes(dims or {})
    for name, size in said.items():
        if size.high is not None or size.mixed:
            message = f"a graph has one size of `{name}`, and declares its range: {size} is not one size"
            raise TsrError(
                [Diagnostic(message, None, f"give one size: {name}={size.nearest(64)}", path=file)]
            )
    if not item.sizes and not said:
        chosen = elaborate(item, program.ops, program.blocks, warn)
        return Model(program, chosen, file=source, packs=tuple(packs))
    sizes = {name: size.sizes[0] for name, size in said.items()}
    opened = open_graph(item, program.ops, program.blocks, warn, sizes)
    return Model(program, opened.graph, file=source, packs=tuple(packs), opened=opened, sizes=said)


def read_onnx(
    file: str,
    packs: Sequence[str],
    dims: Mapping[str, object],
    inputs: str | None = None,
    content: bytes | None = None,
) -> Model:
    """The model in a file, or with this ``content``, with the rules of ``packs``. ``dims`` says the sizes of its
    open dimensions, as `DimSizes.of` takes them; ``inputs`` is an .npz file to compare and time it on. Raises
    `TsrError`, and TypeError and ValueError for what is no size."""
    need_onnx(file)
    if content is not None and not (Path(file).is_file() and Path(file).read_bytes() == content):
        return _from_bytes(content, file, packs, dims, inputs)
    from tensat_dl.onnx.importer import import_model

    found = import_model(file, dims, packs, inputs)
    return Model(found.program, found.graph, found, file, tuple(packs))


def _from_bytes(
    content: bytes, name: str, packs: Sequence[str], dims: Mapping[str, object], inputs: str | None
) -> Model:
    """A model that has no file. ONNX Runtime compares and times files, so it gets one for as long as it lives."""
    folder = tempfile.mkdtemp(prefix="tensat-dl-")
    path = Path(folder) / "model.onnx"
    try:
        path.write_bytes(content)
        model = read_onnx(str(path), packs, dims, inputs)
    except BaseException as e:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(e, TsrError):
            known = (replace(d, path=name) if d.path == str(path) else d for d in e.diagnostics)
            raise TsrError(known) from None
        raise
    weakref.finalize(model.onnx, shutil.rmtree, folder, ignore_errors=True)
    return replace(model, file="-")
