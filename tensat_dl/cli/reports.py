"""The reports of a run: files besides its answer, which are written whether or not there is an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields

from tensat_dl.cli.models import Opened
from tensat_dl.core.egraph import EGraph
from tensat_dl.files import write
from tensat_dl.run.result import Result


@dataclass(frozen=True, slots=True)
class Reports:
    """The paths of the reports; None for a report that was not asked for."""

    json: str | None
    html: str | None
    dot: str | None
    signatures: str | None
    egraph: str | None

    def paths(self) -> Iterator[str]:
        for f in fields(self):
            path = getattr(self, f.name)
            if path is not None:
                yield path

    def write(self, opened: Opened, result: Result, egraph: EGraph, output: str | None, answer: bool) -> None:
        """Writes the reports. ``output`` is the path of the answer. The answer is drawn only if there is an
        ``answer``. Raises OSError."""
        if self.dot is not None and answer:
            from tensat_dl.report.diff import changed_nodes
            from tensat_dl.report.dot import graph_to_dot

            after = result.after.graph
            write(self.dot, graph_to_dot(after, changed_nodes(opened.graph, after)[1]))
        model = None
        if opened.model is not None:
            from tensat_dl.onnx.summary import model_to_json

            model = model_to_json(opened.model)
        if self.json is not None:
            from tensat_dl.report.json import result_to_json

            report = result_to_json(result, output)
            if model is not None:
                report["model"] = model
            write(self.json, json.dumps(report, indent=2, allow_nan=False) + "\n")
        if self.html is not None:
            from tensat_dl.report.html import result_to_html

            write(self.html, result_to_html(result, model))
        if self.signatures is not None:
            from tensat_dl.cost import CostModel, load_device
            from tensat_dl.cost.signature_file import dumps as signature_text
            from tensat_dl.cost.signature_file import job

            # In the order in which they matter, as measuring may be cut short.
            ops = opened.program.ops
            signatures = CostModel(ops, load_device(result.device)).unknown(egraph, [result.after.graph])
            write(self.signatures, signature_text(job(ops, s) for s in signatures))
        if self.egraph is not None:
            from tensat_dl.core.egraph_json import dumps

            write(self.egraph, dumps(egraph))
