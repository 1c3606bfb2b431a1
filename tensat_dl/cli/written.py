"""The files that a run writes: its answer, unless it is refused, and its reports, always."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tensat_dl.cli.outputs import write_json
from tensat_dl.core.egraph import EGraph
from tensat_dl.files import write
from tensat_dl.report.facts import agreed, size
from tensat_dl.run import refused
from tensat_dl.run.model import Model
from tensat_dl.run.refused import Mismatch
from tensat_dl.run.result import Result
from tensat_dl.sizes.named import in_words

#: Bytes that names and types of values may add to a model's file before it counts as grown.
NAMES = 1024

#: Lines of the summary: labels and texts.
Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an answer is not written: a message for standard error, which may be empty; and an exit code."""

    message: str
    code: int = 1


def refusal(result: Result, model: Model, output: str | None) -> Refusal | None:
    """The reason not to write the answer to ``output``; None if there is none."""
    wrong = refused.refusal(result, model.program.own_rules)
    if wrong is not None:
        return Refusal(wrong.render())
    if result.unverified:
        return Refusal(f"{output} is not written: the result is not verified" if output else "", 130)
    return None


def write_answer(output: str, model: Model, result: Result) -> tuple[Refusal | None, Rows]:
    """Writes the optimized graph, and returns lines about it; or the reason why it is not written. Raises `TsrError`,
    OSError."""
    try:
        written = model.write_answer(result, output, result.options.seed)
    except Mismatch as e:
        return Refusal(e.render()), ()
    if written is None:
        return None, ()
    from tensat_dl.onnx.write import Fresh  # with the packages for ONNX models

    if isinstance(written, Fresh):
        random = f"random, seed {result.options.seed}: a .tsr file has none"
        fixed: Rows = ()
        if written.fixed and result.sizes is not None:
            fixed = (("fixed", f"{in_words(result.sizes.after.defaults)}: {written.fixed}"),)
        return None, (("weights", random), *fixed)
    rows = []
    found = written.agreement
    if found.status == "agrees":
        rows.append(("onnx runtime", agreed(found)))
    else:
        print(f"warning: {output} is not compared with the original: {found.message}", file=sys.stderr)
    if written.ranges:
        rows.append(("holds for", f"{written.ranges}; nothing is promised for other sizes"))
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
        opened: Model,
        result: Result,
        egraphs: Sequence[EGraph],
        outputs: Sequence[str],
        answer: bool,
    ) -> None:
        """Writes the reports, that of the e-graph for the last of the ``egraphs``. ``outputs`` are the paths of the
        answer, one for each of several buckets. The answer is drawn only if there is an ``answer``. Raises
        OSError."""
        if self.dot is not None and answer:
            from tensat_dl.report.graphs import changed_nodes, graph_to_dot

            after = result.after.graph
            write(self.dot, graph_to_dot(after, changed_nodes(opened.graph, after)[1]))
        model = None if opened.onnx is None else opened.onnx.to_json()
        if self.json is not None:
            from tensat_dl.report.json import result_to_json

            report = result_to_json(result, outputs[0] if len(outputs) == 1 else None)
            if model is not None:
                report["model"] = model
            if result.buckets is not None:
                report["buckets"] = {**result.buckets.to_json(), "outputs": list(outputs)}
            write_json(self.json, report)
        if self.html is not None:
            from tensat_dl.report.html import result_to_html

            write(self.html, result_to_html(result, model))
        if self.signatures is not None or self.egraph is not None:
            from tensat_dl.core.egraph_json import dumps
            from tensat_dl.cost import CostModel, load_device
            from tensat_dl.cost.application import application
            from tensat_dl.cost.application import dumps as signature_text

            ops = opened.program.ops
            costs = CostModel(ops, load_device(result.device))
            if self.signatures is not None:
                # In the order in which they matter, as measuring may be cut short.
                signatures = dict.fromkeys(s for e in egraphs for s in costs.unknown(e, [result.after.graph]))
                write(self.signatures, signature_text(application(ops, s) for s in signatures))
            if self.egraph is not None:
                write(self.egraph, dumps(costs.by_layout(egraphs[-1])))
