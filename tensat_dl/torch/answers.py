"""The search for a faster graph. Its answers are kept in the user's folder for caches.

An answer depends on the graph, not on the values of its weights: other weights of the same model find it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensat_dl.kept import kept
from tensat_dl.onnx.importer import Imported
from tensat_dl.run.kept_search import question
from tensat_dl.run.model import Model
from tensat_dl.run.of_model import optimize_model
from tensat_dl.run.options import Options
from tensat_dl.run.refused import RefutedRule, refusal
from tensat_dl.run.result import Result

#: So many answers are kept. `torch.compile` may ask for several in one program.
MOST = 64


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a search found, and the summary of the ONNX model that it was for (`Imported.to_json`)."""

    key: str
    result: Result
    model: Mapping[str, Any]

    @property
    def gained(self) -> bool:
        """Whether another graph was found that is better: faster, if graphs were timed, or else cheaper."""
        if self.result.parts:
            return True
        if self.result.measured is not None:
            return self.result.measured.winner is not None
        before, after = self.result.before.graph, self.result.after.graph
        return (before.nodes, before.outputs) != (after.nodes, after.outputs)

    @property
    def refused(self) -> str:
        """Why the graph that was found may not be used; empty if it may be."""
        wrong = refusal(self.result, ())
        if isinstance(wrong, RefutedRule):
            false = [v.rule for v in self.result.verdicts if v.failed]
            return f"rules were applied that are false: {', '.join(false)} (see tensat-dl check)"
        return "" if wrong is None else wrong.diagnostics[0].message


def answer(
    imported: Imported,
    options: Options,
    explained: bool,
    known: KeptAnswer | None = None,
) -> KeptAnswer:
    """The answer for a model: the ``known`` one, if that was for the same graph, one that was kept, or a new one. If
    it is to be ``explained``, it has the steps that lead to it. Raises what `tensat_dl.optimize` does, and
    KeyboardInterrupt after Ctrl-C."""
    key = question(imported, options, explained, threads=options.threads)
    if known is not None and known.key == key:
        return known

    def search() -> KeptAnswer:
        model = Model(imported.program, imported.graph, imported, imported.path)
        result, _ = optimize_model(model, options, explained=explained)
        if result.interrupted:
            raise KeyboardInterrupt
        return KeptAnswer(key, result, imported.to_json())

    return kept("torch", key, search, MOST)
