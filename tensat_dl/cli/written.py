"""The files that a run writes: its answer, unless it is refused, and its reports, always."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

from tensat_dl.cli.inputs import Opened, is_onnx
from tensat_dl.cli.outputs import write_json
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.files import write
from tensat_dl.lang.program import Program
from tensat_dl.run.result import Result

#: Bytes that names and types of values may add to a model's file before it counts as grown.
NAMES = 1024

#: Lines of the summary: labels and texts.
Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an answer is not written: a message for standard error, which may be empty; and an exit code."""

    message: str
    code: int = 1


def refusal(result: Result, program: Program, output: str | None, verified: bool) -> Refusal | None:
    """The reason not to write the answer to ``output``; None if there is none. ``verified`` tells whether
    verification was asked for."""
    false = {v.rule: v for v in result.verdicts if v.failed}
    if false:
        from tensat_dl.report.verdicts import diagnostic

        found = (diagnostic(false[r.name], r) for r in program.rules if r.name in false)
        return Refusal("\n\n".join(d.render() for d in found if d is not None))
    compared = result.equivalence
    if compared is not None and compared.status == "different":
        return Refusal(
            f"error: the optimized graph computes something else: {compared.message}\n"
            f"  = hint: {_suspects(result, program)}"
        )
    if result.measured is not None and result.measured.mismatch:
        return _not_the_same(output, result.measured.mismatch)
    if compared is None and verified:  # interrupted
        return Refusal(f"{output} is not written: the result is not verified" if output else "", 130)
    return None


def _not_the_same(output: str | None, difference: str) -> Refusal:
    """ONNX Runtime computes something else with the answer than with the original."""
    what = "the optimized model computes something else" if output is None else f"{output} is not written"
    return Refusal(f"error: {what}: {difference}")


def _suspects(result: Result, program: Program) -> str:
    """The rules that may be at fault: rules of the file itself, if any was applied, else all."""
    applied = dict.fromkeys(s.rule for step in result.iterations for s in step.rules if s.applied)
    declared = {r.name: r.declared for r in program.rules}
    own = [name for name in applied if declared.get(name) in program.own_rules]
    names = own or list(applied)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"an applied rule must be false; rules{' of this file' if own else ''} that were applied: {shown}"


def write_answer(output: str, opened: Opened, result: Result, seed: int) -> tuple[Refusal | None, Rows]:
    """Writes the optimized graph, and returns lines about it; or the reason why it is not written. Raises `TsrError`,
    OSError."""
    graph, ops = result.after.graph, opened.program.ops
    if is_onnx(output):
        from tensat_dl.fuse.fuse import unfused
        from tensat_dl.onnx.write import write_fresh

        graph = unfused(graph, ops, result.declared)  # ONNX Runtime fuses as it likes
        if opened.model is not None:
            return _write_back(opened, graph, output, seed)
        write_fresh(graph, ops, output, seed)
        return None, (("weights", f"random, seed {seed}: a .tsr file has none"),)
    from tensat_dl.cli.options import arguments
    from tensat_dl.why.origin import Origin, digest

    recorded = arguments(click.get_current_context(), output, opened.dims)
    made = Origin(recorded, digest(opened.graph, ops))
    write(output, opened.text(graph, [made.comment()]))
    return None, ()


def _write_back(opened: Opened, graph: Graph, output: str, seed: int) -> tuple[Refusal | None, Rows]:
    """Writes a model, unless it computes something else in ONNX Runtime than the model that was opened."""
    from tensat_dl.onnx.write import write_back
    from tensat_dl.report.facts import agreed, size

    assert opened.model is not None
    written = write_back(opened.model, graph, output, seed)
    found = written.agreement
    if written.wrong:
        return _not_the_same(output, written.wrong), ()
    rows = []
    if found.status == "agrees":
        rows.append(("onnx runtime", agreed(found)))
    else:
        print(f"warning: {output} is not compared with the original: {found.message}", file=sys.stderr)
    if written.after > written.before + NAMES:
        rows.append(("model size", f"{size(written.before)} -> {size(written.after)}"))
    return None, tuple(rows)


@dataclass(frozen=True, slots=True)
class Reports:
    """The paths of the reports of a run; None for a report that was not asked for."""

    json: str | None
    html: str | None
    dot: str | None
    signatures: str | None
    egraph: str | None

    def write(
        self,
        opened: Opened,
        result: Result,
        egraphs: Sequence[EGraph],
        output: str | None,
        answer: bool,
    ) -> None:
        """Writes the reports, that of the e-graph for the last of the ``egraphs``. ``output`` is the path of the
        answer. The answer is drawn only if there is an ``answer``. Raises OSError."""
        if self.dot is not None and answer:
            from tensat_dl.report.graphs import changed_nodes, graph_to_dot

            after = result.after.graph
            write(self.dot, graph_to_dot(after, changed_nodes(opened.graph, after)[1]))
        model = None if opened.model is None else opened.model.to_json()
        if self.json is not None:
            from tensat_dl.report.json import result_to_json

            report = result_to_json(result, output)
            write_json(self.json, report if model is None else {**report, "model": model})
        if self.html is not None:
            from tensat_dl.report.html import result_to_html

            write(self.html, result_to_html(result, model))
        if self.signatures is not None or self.egraph is not None:
            from tensat_dl.core.egraph_json import dumps
            from tensat_dl.cost import CostModel, load_device
            from tensat_dl.cost.application import dumps as signature_text
            from tensat_dl.cost.application import job

            ops = opened.program.ops
            costs = CostModel(ops, load_device(result.device))
            if self.signatures is not None:
                # In the order in which they matter, as measuring may be cut short.
                signatures = dict.fromkeys(s for e in egraphs for s in costs.unknown(e, [result.after.graph]))
                write(self.signatures, signature_text(job(ops, s) for s in signatures))
            if self.egraph is not None:
                write(self.egraph, dumps(costs.by_layout(egraphs[-1])))
