"""The Python API: what the command line does, with exceptions for messages."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import tensat_dl
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.egraph_json import loads
from tensat_dl.engine.exploration import CYCLES
from tensat_dl.run.machines import aimed
from tensat_dl.run.options import Options, about

pytestmark = pytest.mark.sampled(3)

ROOT = Path(__file__).parents[2]
SHARED = str(ROOT / "examples" / "tiny_share_input.tsr")
GRAPH = "graph g {\n  input x : f32[4]\n  output relu(relu(x))\n}\n"


class Stopped(Exception):
    """A run came so far."""


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
    assert result.options.cycles == cycles


def test_rules(tmp_path: Path) -> None:
    model = tensat_dl.load(write(tmp_path, GRAPH), rules=["standard"])
    assert len([n for n in tensat_dl.optimize(model).after.graph.nodes if n.op == "relu"]) == 1
    assert len([n for n in tensat_dl.optimize(model, rules=()).after.graph.nodes if n.op == "relu"]) == 2


def test_options() -> None:
    model = tensat_dl.load(SHARED)
    result = tensat_dl.optimize(model, device="cpu", k_multi=2, max_iters=0, extract="greedy", verify=False)
    assert (result.device, result.stop, result.extraction.method) == ("cpu", "iterations", "greedy")
    assert result.equivalence is None


def test_keywords_are_the_options() -> None:
    """Names, types and defaults; and what is said of each."""
    *keywords, progress = (
        p for p in inspect.signature(tensat_dl.optimize).parameters.values() if p.kind is p.KEYWORD_ONLY
    )
    options = fields(Options)
    assert progress.name == "progress"
    assert [(p.name, p.annotation, p.default) for p in keywords] == [
        (f.name, f.type, f.default) for f in options
    ]
    entries = dict(
        re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(tensat_dl.optimize) or "", re.MULTILINE)
    )
    for f in options:
        said = about(f)
        text = said.help.format("so many")
        if f.default is True:
            text = f"If False: {text}"
        if said.unit and said.unit not in text:
            text += f" In {said.unit}."
        if said.least is not None:
            text += f" At least {said.least}"
            text += f"; None: {said.none}." if said.none else "."
        if said.choices:
            text += f" One of {', '.join(said.choices)}."
        text += f" Default: {f.default!r}{f', {said.none}' if said.none and f.default is None else ''}."
        assert " ".join(entries[f.name].split()) == text


#: A value for each option, by the search that takes it.
GIVEN: dict[str, dict[str, Any]] = {
    "saturation": {
        "device": "cpu",
        "measure": False,
        "threads": 2,
        "buckets": False,
        "k_multi": None,
        "max_nodes": 3,
        "max_iters": 4,
        "time_limit": 5.0,
        "max_memory": 6,
        "cycles": "vanilla",
        "reassociate": False,
        "trust": "proved",
        "fuse": False,
        "extract": "greedy",
        "extract_time_limit": 7.0,
        "verify": False,
        "seed": 8,
    },
    "backtracking": {"search": "backtracking", "iterations": 9, "alpha": 1.5, "split": 20},
}


@pytest.mark.parametrize("search", GIVEN)
def test_options_reach_the_pipeline(search: str) -> None:
    """Each under its own name."""
    given = GIVEN[search]
    with patch("tensat_dl.run.of_model.optimize", side_effect=Stopped) as run, pytest.raises(Stopped):
        tensat_dl.optimize(tensat_dl.load(SHARED), **given)
    assert run.call_args.args[3] == aimed(Options(**given), of_onnx=False)


def test_all_options_are_tried() -> None:
    assert {name for given in GIVEN.values() for name in given} == {f.name for f in fields(Options)}


def test_cycles_are_those_of_the_engine() -> None:
    assert {f.name: about(f) for f in fields(Options)}["cycles"].choices == CYCLES


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


def test_files_are_named_by_paths(tmp_path: Path) -> None:
    rules = tmp_path / "once.tsr"
    rules.write_text("rule once { relu(relu(x)) => relu(x) }\n", encoding="utf-8")
    model = tensat_dl.load(Path(write(tmp_path, GRAPH)), rules=[rules])
    assert "once" in [rule.name for rule in model.rules]


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
    with pytest.raises(TsrError, match="choose one with graph=NAME"):
        tensat_dl.load(write(tmp_path, GRAPH + GRAPH.replace("graph g", "graph h")))
    with pytest.raises(TsrError, match="the file has no graph"):
        tensat_dl.load(write(tmp_path, ""))
    with pytest.raises(ValueError, match="unknown device"):
        tensat_dl.optimize(tensat_dl.load(SHARED), device="nonesuch")


def test_misuse_is_named() -> None:
    model = tensat_dl.load(str(SHARED))
    with pytest.raises(TypeError, match="what load"):
        tensat_dl.optimize("model.tsr")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"verify_rules\(\) takes what load\(\) returned, not str"):
        tensat_dl.verify_rules("model.tsr")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="packs are named when a graph is loaded"):
        tensat_dl.verify_rules(model, ["standard"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="two rules have one name: matmul-relu"):
        tensat_dl.optimize(model, (replace(model.rules[0], name="matmul-relu"),) * 2)
    with pytest.raises(TypeError, match="packs are named when a graph is loaded"):
        tensat_dl.optimize(model, rules=["standard"])  # type: ignore[list-item]


def test_packs_come_in_a_list() -> None:
    with pytest.raises(TypeError, match=r"rules=\['taso'\]"):
        tensat_dl.load("g.tsr", rules="taso")


def test_arguments_that_a_file_has_no_use_for() -> None:
    for arguments in ({"inputs": "data.npz"},):
        with pytest.raises(ValueError, match="inputs are for ONNX models"):
            tensat_dl.load(SHARED, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an ONNX model has one"):
        tensat_dl.load("model.onnx", graph="g")


def test_fused_operators(tmp_path: Path) -> None:
    """They are in the answer."""
    text = "graph g {\n  input x : f32[64, 64]\n  output tanh(relu(x) * x)\n}"
    result = tensat_dl.optimize(tensat_dl.load(write(tmp_path, text)), fuse=True)
    assert (
        set(result.declared) >= {n.op for n in result.after.graph.nodes if n.op.startswith("fused")} != set()
    )
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"


def test_rules_that_change_rounding_can_be_left_out(tmp_path: Path) -> None:
    text = "rule turn { (x * y) * y => x * (y * y) }\nrule flip { relu(relu(x)) => relu(x) }\n" + GRAPH
    model = tensat_dl.load(write(tmp_path, text))
    for reassociate in (True, False):
        with patch("tensat_dl.run.pipeline.beginning", side_effect=Stopped) as search, pytest.raises(Stopped):
            tensat_dl.optimize(model, reassociate=reassociate)
        names = {r.name for r in search.call_args.args[1]}
        assert "flip" in names
        assert ("turn" in names) == reassociate


def test_importing_is_light() -> None:
    script = "import sys, tensat_dl; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert {"egglog", "pyscipopt", "numpy", "click", "jinja2"}.isdisjoint(done.stdout.split())
    assert tensat_dl.__version__


def test_the_module_shows_what_is_public() -> None:
    """All names of `dir` are there, the types are those of the package, and the document has them."""
    assert dir(tensat_dl) == sorted(tensat_dl.__all__)
    document = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in dir(tensat_dl):
        value = getattr(tensat_dl, name)
        assert name == "__version__" or re.search(rf"`{name}\b", document), name
        assert inspect.isclass(value) or inspect.isfunction(value) or name == "__version__", name
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        _ = tensat_dl.nonesuch
    assert isinstance(tensat_dl.load(SHARED), tensat_dl.Model)
