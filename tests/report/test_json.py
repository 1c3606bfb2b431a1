"""The keys of the JSON report, which scripts rely on."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from pathlib import Path

from tensat_dl.report.json import result_to_json

from .results import AFTER, BEFORE, read_text, result


def test_keys(tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    report = json.loads(json.dumps(result_to_json(result(before, after), "out.tsr"), allow_nan=False))
    assert report["graph"] == "shared"
    assert report["device"] == "h100"
    assert report["cost"].keys() >= {"before", "after", "measured_share"}
    assert report["cost"]["before"] == 0.128 + 0.128 + 0.064
    assert report["egraph"] == {"nodes": 1234, "classes": 700}
    assert report["stop"] == "saturated"
    assert report["iterations"][0]["matches"] == {"merge-matmul-rhs": 2, "unused": 0}
    assert report["iterations"][1].keys() >= {"nodes", "classes", "seconds", "matches"}
    assert report["time"].keys() == {"parse", "explore", "cost", "extract", "verify", "total", "measure"}
    assert report["extract"].keys() >= {"method", "status", "cost", "bound", "gap"}
    assert report["extract"]["status"] == "feasible"
    assert report["verify"].keys() >= {"status", "max_abs_error", "max_rel_error"}
    assert report["output"] == "out.tsr"
    assert report["operators"]["before"] == {"matmul": 2, "tanh": 1}
    assert report["operators"]["after"] == {"matmul": 1, "slice": 2, "tanh": 1}


def test_what_is_missing_is_null(tmp_path: Path) -> None:
    graph, _ = read_text(BEFORE, tmp_path)
    run = result(graph, graph)
    run = replace(run, equivalence=None, extraction=replace(run.extraction, bound=-inf))
    report = json.loads(json.dumps(result_to_json(run, None), allow_nan=False))
    assert report["verify"]["status"] == "skipped"
    assert report["verify"]["max_abs_error"] is None
    assert report["extract"]["bound"] is None
    assert report["output"] is None
