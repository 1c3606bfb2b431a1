"""The Python API: what the command line does, with exceptions for messages."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tensat_dl
from tensat_dl.ir.egraph_json import loads
from tensat_dl.lang.diagnostics import TsrError

ROOT = Path(__file__).parents[2]
SHARED = str(ROOT / "examples" / "tiny_share_input.tsr")
GRAPH = "graph g {\n  input x : f32[4]\n  output relu(relu(x))\n}\n"


def write(folder: Path, text: str) -> str:
    path = folder / "g.tsr"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_optimize() -> None:
    result = tensat_dl.optimize(tensat_dl.load(SHARED))
    assert result.after.total < result.before.total
    assert [n.op for n in result.after.graph.nodes].count("matmul") == 1
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    assert not result.interrupted


@pytest.mark.parametrize("cycles", ["vanilla", "efficient", "incremental"])
def test_cycles(cycles: Any) -> None:
    result = tensat_dl.optimize(tensat_dl.load(SHARED), cycles=cycles, extract="ilp-none")
    assert result.after.total < result.before.total
    assert result.cycles == cycles
    with pytest.raises(ValueError, match="use one of none, vanilla"):
        tensat_dl.optimize(tensat_dl.load(SHARED), cycles="all")  # type: ignore[arg-type]


def test_rules(tmp_path: Path) -> None:
    model = tensat_dl.load(write(tmp_path, GRAPH), rules=["standard"])
    assert len([n for n in tensat_dl.optimize(model).after.graph.nodes if n.op == "relu"]) == 1
    assert len([n for n in tensat_dl.optimize(model, rules=()).after.graph.nodes if n.op == "relu"]) == 2


def test_options() -> None:
    model = tensat_dl.load(SHARED)
    result = tensat_dl.optimize(model, device="cpu", k_multi=0, max_iters=0, extract="greedy", verify=False)
    assert (result.device, result.stop, result.extraction.method) == ("cpu", "iterations", "greedy")
    assert result.equivalence is None


def test_extract() -> None:
    """A diamond: sharing makes the dearer e-node of the root the cheaper choice."""
    egraph = loads(
        """{"root_eclasses": ["r"], "nodes": {
          "r0": {"op": "f", "eclass": "r", "cost": 1, "children": ["a0", "b0"]},
          "r1": {"op": "g", "eclass": "r", "cost": 6, "children": []},
          "a0": {"op": "h", "eclass": "a", "cost": 1, "children": ["c0"]},
          "b0": {"op": "h", "eclass": "b", "cost": 1, "children": ["c0"]},
          "c0": {"op": "i", "eclass": "c", "cost": 2.5, "children": []}}}"""
    )
    assert tensat_dl.extract(egraph).cost == 5.5
    assert tensat_dl.extract(egraph, "greedy").cost == 6
    with pytest.raises(ValueError, match="unknown extraction method 'best'"):
        tensat_dl.extract(egraph, "best")


def test_errors_are_located(tmp_path: Path) -> None:
    path = write(tmp_path, GRAPH.replace("relu(x)", "relu(y)"))
    with pytest.raises(TsrError) as raised:
        tensat_dl.load(path)
    assert f"{path}:3:" in str(raised.value)
    assert raised.value.diagnostics
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(TsrError, match="no such file"):
        tensat_dl.load(str(tmp_path / "none.tsr"))
    with pytest.raises(TsrError, match="nonesuch"):
        tensat_dl.load(SHARED, graph="nonesuch")
    with pytest.raises(TsrError, match="h"):
        tensat_dl.load(write(tmp_path, GRAPH + GRAPH.replace("graph g", "graph h")))
    with pytest.raises(TsrError, match="its graphs: none"):
        tensat_dl.load(write(tmp_path, ""))
    with pytest.raises(ValueError, match="unknown device"):
        tensat_dl.optimize(tensat_dl.load(SHARED), device="nonesuch")


def test_misuse_is_named() -> None:
    model = tensat_dl.load(str(SHARED))
    with pytest.raises(TypeError, match="what load"):
        tensat_dl.optimize("model.tsr")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two rules have one name: matmul-relu"):
        tensat_dl.optimize(model, (replace(model.rules[0], name="matmul-relu"),) * 2)
    with pytest.raises(TypeError, match="packs are named when a graph is loaded"):
        tensat_dl.optimize(model, rules=["standard"])  # type: ignore[list-item]


def test_importing_is_light() -> None:
    script = "import sys, tensat_dl; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert {"egglog", "pyscipopt", "numpy", "click", "jinja2"}.isdisjoint(done.stdout.split())
    assert tensat_dl.__version__
