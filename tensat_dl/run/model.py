"""What is optimized: a graph and its program; and how an answer is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.shown import Shown
from tensat_dl.files import write
from tensat_dl.fuse.fuse import extended, unfused
from tensat_dl.lang.declare import Declared
from tensat_dl.lang.print_graph import graph_to_tsr, header
from tensat_dl.lang.program import Program
from tensat_dl.onnx import PACK, is_onnx
from tensat_dl.ops.table import OpTable
from tensat_dl.sizes.answers import OtherSizes
from tensat_dl.sizes.dim_sizes import DimSizes
from tensat_dl.sizes.named import OpenGraph
from tensat_dl.why.origin import Origin, digest, is_path, relative

if TYPE_CHECKING:
    from tensat_dl.onnx.importer import Imported
    from tensat_dl.onnx.write import Fresh, Written
    from tensat_dl.run.beginning import Unfit
    from tensat_dl.run.options import Options
    from tensat_dl.run.result import Result


def path_of(output: str, range: str) -> str:
    """The file for the answer of a bucket: ``faster.1-48.onnx`` beside ``faster.onnx``."""
    path = Path(output)
    return str(path.with_name(f"{path.stem}.{range}{path.suffix}"))


@dataclass(frozen=True, repr=False)
class Model(Shown):
    """A graph, the program that it is part of, and the ONNX model that it was read from, if any.

    ``file`` is what it was read from, "-" if that has no path; ``packs`` are the rule packs and files that were named
    with it. A graph with named sizes is ``opened``; ``sizes`` are those that were asked for.
    """

    program: Program
    graph: Graph
    onnx: Imported | None = None
    file: str = "-"
    packs: tuple[str, ...] = ()
    opened: OpenGraph | None = None
    sizes: Mapping[str, DimSizes] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Model {self.graph.name}: {len(self.graph.nodes)} nodes, {len(self.rules)} rules>"

    @property
    def ops(self) -> OpTable:
        """The operators that its graph and its rules may use."""
        return self.program.ops

    @property
    def rules(self) -> tuple[RewriteRule, ...]:
        """The rules that came with it."""
        return self.program.rules

    @property
    def dims(self) -> Mapping[str, DimSizes]:
        """The sizes of open dimensions: the ONNX model's, or those that were asked for of named ones."""
        return self.sizes if self.onnx is None else self.onnx.said

    @property
    def unfit(self) -> Unfit | None:
        """A function that finds e-nodes valid only at the given sizes of open dimensions; None without these."""
        if self.opened is not None:
            return OtherSizes(self.opened, self.ops).fixed
        return self.onnx.fixed_sizes if self.onnx is not None and self.onnx.elsewhere else None

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it was read from."""
        read = tuple(map(str, self.program.files))
        if self.onnx is None:
            return read
        from tensat_dl.onnx.model_files import data_files

        return (*read, *data_files(self.onnx.model))

    @property
    def digest(self) -> str:
        """Tells whether it has changed: what an answer records of it."""
        return digest(self.graph, self.ops, self.opened)

    def with_operators(self, declared: Mapping[str, Declared]) -> Model:
        """The same with further operators."""
        ops = extended(self.program.ops, declared)
        known = {**self.program.declared, **declared}
        return replace(self, program=replace(self.program, ops=ops, declared=known))

    def text(self, graph: Graph, comments: Sequence[str] = (), opened: OpenGraph | None = None) -> str:
        """A graph over the same operators as .tsr text, with names for its sizes if it is ``opened``."""
        return graph_to_tsr(graph, self.ops, header(self.program.declared, graph), comments, opened)

    def arguments(self, options: Options, output: str) -> tuple[str, ...]:
        """The arguments of the `tensat-dl run` that optimizes it with these options, but for those that have their
        defaults. Paths are relative to the folder of the output."""
        words = [relative(self.file, output)]
        if len(self.program.graphs) > 1:
            words += ["--graph", self.graph.name]
        for pack in () if self.onnx is not None and self.packs == (PACK,) else self.packs:
            words += ["--rules", relative(pack, output) if is_path(pack) else pack]
        words += options.arguments(self.onnx is not None)
        for name, said in self.dims.items():
            words += ["--dim", f"{name}={said}"]
        return tuple(words)

    def answer_text(self, result: Result, output: str) -> str:
        """The optimized graph of a result as .tsr text, for a file of this path."""
        comment = "made by: tensat-dl, from Python, with rules that no file names"
        if result.rules == self.rules:
            comment = Origin(self.arguments(result.options, output), self.digest).comment()
        opened = None if result.sizes is None else result.sizes.after
        return self.with_operators(result.declared).text(result.after.graph, [comment], opened)

    def answers(self, result: Result, output: str) -> list[tuple[str, Model, Result]]:
        """The files of an answer: the path, the model that is written there, and its part of the answer. With buckets
        there is one for each."""
        if not result.parts:
            return [(output, self, result)]
        assert self.onnx is not None
        return [
            (path_of(output, b.range), replace(self, onnx=b.of(self.onnx)), b.result) for b in result.parts
        ]

    def write_answer(self, result: Result, output: str, seed: int = 0) -> Written | Fresh | None:
        """Writes the optimized graph of a result: to a file .onnx as a model, else as .tsr text.

        A graph that was read from an ONNX model is written back into it, and both models are compared, which is
        returned. A graph of a .tsr file becomes a model with random weights, whose sizes are open if they can be.
        Raises `Mismatch` if the models differ, `TsrError`, OSError.
        """
        graph, declared = result.after.graph, result.declared
        if not is_onnx(output):
            write(output, self.answer_text(result, output))
            return None
        from tensat_dl.onnx.write import write_back, write_fresh
        from tensat_dl.run.refused import Mismatch

        ops = extended(self.ops, declared)
        graph = unfused(graph, ops, declared)  # ONNX Runtime fuses as it likes
        if self.onnx is None:
            opened = None
            if result.sizes is not None and self.opened is not None:
                whole = graph is result.after.graph
                opened = result.sizes.after if whole else OtherSizes(self.opened, self.ops).named(graph, ops)
            return write_fresh(graph, ops, output, seed, opened)
        agreed = None if result.measured is None else result.measured.agreement
        written = write_back(self.onnx, graph, output, seed, agreed)
        if written.wrong:
            message, hint = f"{output} is not written: {written.wrong}", ""
            if written.agreement.status == "narrow":
                only = [(d, n) for d, n in self.onnx.dims.items() if f"for {d} = {n} only" in written.wrong]
                known = next((f"{name}={n}..{n}" for name, n in only), "NAME=N..N")
                hint = f"give another size, or say that it need not hold for others: --dim {known}"
            raise Mismatch([Diagnostic(message, None, hint)], result)
        return written
