"""An extraction from a priced e-graph, as JSON: the answer file and the report of ``tensat-dl extract``.

The names of the keys are a contract; extras may be added. docs/extraction.md describes the answer file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tensat_dl.extract.types import Extraction


def answer_to_json(
    found: Extraction, roots: Sequence[int], classes: Sequence[str], nodes: Sequence[str], n_best: int = 1
) -> dict[str, Any]:
    """The answer as plain data. ``classes`` and ``nodes`` are the names of e-classes and e-nodes by number.

    ``runners_up`` is there if several answers were asked for, even if there is only one.
    """

    def plain(one: Extraction) -> dict[str, Any]:
        return {"cost": one.cost, "choices": {classes[c]: nodes[n] for c, n in one.choices.items()}}

    answer = {"root_eclasses": [classes[r] for r in dict.fromkeys(roots)], **plain(found)}
    if n_best > 1:
        answer["runners_up"] = [plain(other) for other in found.runners_up]
    return answer


def extraction_to_json(found: Extraction) -> dict[str, Any]:
    """The report as plain data: how the answer was found, and its proven bound."""
    return {
        "extract": {
            "method": found.method,
            "status": found.status,
            "cost": found.cost,
            "bound": found.bound,
            "gap": found.gap,
            "seconds": found.seconds,
            "runners_up": [other.cost for other in found.runners_up],
            "log": [asdict(moment) for moment in found.log],
        },
        "interrupted": found.interrupted,
    }
