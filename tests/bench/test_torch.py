"""``bench torch``: rows as text, means, and going on. What needs PyTorch is not tried here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.bench.torch import best, line, mean, notes
from tensat_dl.bench.torch_models import (
    CONTESTANTS,
    EAGER,
    INDUCTOR,
    INDUCTOR_MAX,
    ONNX_RUNTIME,
    OURS,
    TORCH_MODELS,
)


def row(model: str, **times: float) -> dict[str, Any]:
    """A row in which contestants take these milliseconds, by the first word of their names."""
    known = {c: times[c.split()[0].lower().replace("-", "_")] for c in (EAGER, ONNX_RUNTIME, OURS)}
    known |= {
        c: times[key] for c, key in ((INDUCTOR, "inductor"), (INDUCTOR_MAX, "inductor_max")) if key in times
    }
    return {
        "model": model,
        "called": "optimized",
        "failed": {c: "no compiler" for c in CONTESTANTS if c not in known},
        "latency": {c: {"median_ms": t, "iqr_ms": 0.1} for c, t in known.items()},
        "speedup": {
            c: {"median": t / known[OURS], "low": 0.9 * t / known[OURS], "high": 1.1 * t / known[OURS]}
            for c, t in known.items()
            if c != OURS
        },
        "max_rel": {OURS: 1e-6},
    }


def test_the_table() -> None:
    found = line(row("bert", eager=8.0, inductor=6.0, onnx=4.0, tensat_dl=2.0))
    assert found == [
        *("bert", "8.00 ± 0.10", "1.33x", "failed", "2.00x", "4.00x"),
        *("3.00x (2.70-3.30)", "2.00x (1.80-2.20)", "optimized", "1e-06"),
    ]


def test_the_best_rival_is_the_fastest_that_ran() -> None:
    found = row("bert", eager=8.0, inductor=6.0, inductor_max=5.0, onnx=7.0, tensat_dl=2.0)
    assert best(found, (INDUCTOR, INDUCTOR_MAX)) == INDUCTOR_MAX
    assert best(found, CONTESTANTS[:-1]) == INDUCTOR_MAX
    assert best(row("bert", eager=8.0, onnx=7.0, tensat_dl=2.0), (INDUCTOR, INDUCTOR_MAX)) is None


def test_means_are_geometric_and_losses_are_named() -> None:
    rows = [
        row("bert", eager=8.0, inductor=4.0, onnx=4.0, tensat_dl=1.0),
        row("resnet18", eager=8.0, inductor=1.0, onnx=4.0, tensat_dl=4.0),
    ]
    assert mean(rows, lambda r: INDUCTOR) == (pytest.approx((4 * 0.25) ** 0.5), 2)
    means, slower = notes(rows)
    assert "4.00 times as fast as the better Inductor on transformers (1)" in means
    assert "0.25 times as fast as the better Inductor on other models (1)" in means
    assert "2.00 times as fast as ONNX Runtime (2)" in means
    assert slower == "another is faster in every process: resnet18 (Inductor, 4.00x)"
    assert notes([]) == []


def test_at_least_twenty_models_of_three_libraries() -> None:
    assert len(TORCH_MODELS) >= 20
    assert {e.library for e in TORCH_MODELS.values()} == {"transformers", "timm", "torchvision", ""}


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.cli.running import invoke

    path = tmp_path / "r.json"
    done = row("bert", eager=8.0, inductor=6.0, onnx=4.0, tensat_dl=2.0)
    other = {**done, "model": "vit"}
    path.write_text(json.dumps({"options": {"threads": 1, "starts": 3}, "rows": [done, other]}))
    assert "3.00x" in invoke("bench", "torch", "bert", "--resume", "--json", path).out
    assert json.loads(path.read_text())["rows"] == [done, other], "models that are not named stay"
    refused = invoke("bench", "torch", "bert", "--resume", "--threads", "2", "--json", path)
    assert (refused.code, "for other options" in refused.err) == (2, True)
    there = {"options": {"threads": 1, "starts": 3}, "machine": {"processor": "an abacus"}, "rows": [done]}
    path.write_text(json.dumps(there))
    refused = invoke("bench", "torch", "bert", "--resume", "--json", path)
    assert (refused.code, "of another processor" in refused.err) == (2, True)
