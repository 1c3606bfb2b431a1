"""The reports that a run writes, whether or not its answer is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensat_dl.cli.outputs import write_json
from tensat_dl.files import write

if TYPE_CHECKING:
    from tensat_dl.core.egraph import EGraph
    from tensat_dl.run.model import Model
    from tensat_dl.run.result import Result


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
