"""What an earlier run found: when it is used again, and when it is searched for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx import helper

import tensat_dl
from tensat_dl.measure.cpu import Cpu
from tensat_dl.run import finish
from tensat_dl.run.finish import SEARCHED
from tensat_dl.run.machines import aimed
from tensat_dl.run.of_model import optimize_model
from tensat_dl.run.options import Options
from tensat_dl.run.result import Result
from tests.measure.quick import quick
from tests.onnx_files.models import model, random, saved, value

#: Runs the model with options, and says whether there was a search.
Run = Callable[..., tuple[Result, bool]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    quick(monkeypatch, tmp_path / "profiles")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    nodes = [
        *(helper.make_node("MatMul", ["x", w], [f"x{w}"]) for w in "uv"),
        helper.make_node("Add", ["xu", "xv"], ["y"]),
    ]
    weights = [random(name, 16, 16) for name in "uv"]
    path = saved(tmp_path, model(nodes, [value("x", 8, 16)], [value("y", 8, 16)], weights))
    searches: list[bool] = []
    first = finish.search

    def search(*arguments: Any) -> Any:
        searches.append(True)
        return first(*arguments)

    monkeypatch.setattr(finish, "search", search)

    def found(
        explained: bool = False, rules: Any = None, loaded: Any = None, **options: Any
    ) -> tuple[Result, bool]:
        searches.clear()
        loaded = loaded or tensat_dl.load(path)
        asked = aimed(Options(max_iters=2, **options), of_onnx=True)
        result, _ = optimize_model(loaded, asked, explained=explained, rules=rules and rules(loaded))
        return result, bool(searches)

    return found


def test_a_second_run_does_not_search(run: Run) -> None:
    first, searched = run()
    assert searched
    assert SEARCHED not in first.notes
    again, searched = run()
    assert not searched
    assert SEARCHED in again.notes
    assert again.verdicts == first.verdicts
    assert again.equivalence is not None, "it is checked again"
    assert again.measured is not None
    assert again.measured.agreement is not None
    for one in ("iterations", "nodes", "classes", "stop", "rounds", "declared", "before"):
        assert getattr(again, one) == getattr(first, one)
    assert first.measured is not None
    predicted = [[c.predicted_ms for c in r.measured.candidates] for r in (first, again) if r.measured]
    assert predicted[0] == predicted[1]


def test_a_search_for_something_else_is_made(run: Run) -> None:
    run()
    assert run(max_nodes=500)[1], "other options"
    assert run(explained=True)[1], "the steps are not kept"
    assert run(rules=lambda loaded: loaded.rules[1:])[1], "other rules"
    assert not run()[1]


def test_rules_count_as_they_were_read(run: Run, tmp_path: Path) -> None:
    file, model = tmp_path / "mine.tsr", str(next(tmp_path.glob("*.onnx")))
    texts = ["rule mine { relu(x) => x }", 'import "standard"\nrule mine { relu(relu(x)) => relu(x) }']
    for text, other in (texts, texts[::-1]):
        file.write_text(text)
        loaded = tensat_dl.load(model, rules=[file])
        file.write_text(other)
        assert run(loaded=loaded)[1]
        assert not run(loaded=loaded)[1]
    file.unlink()
    assert not run(loaded=loaded)[1]


def test_operators_of_rules_count(run: Run, tmp_path: Path) -> None:
    file, model = tmp_path / "mine.tsr", str(next(tmp_path.glob("*.onnx")))
    for shape in ("shape(x)", "[1]"):
        file.write_text(f"opaque op mine(x) {{ shape {shape} }}\nrule mine {{ relu(mine(x)) => mine(x) }}")
        assert run(loaded=tensat_dl.load(model, rules=[file]))[1]
        file.write_text(f"// the same\n{file.read_text()}")
        assert not run(loaded=tensat_dl.load(model, rules=[file]))[1]


def test_each_size_of_a_dimension_has_its_own_search(run: Run, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "u"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    proto = model(nodes, [value("x", "n", 16)], [value("z", "n", 16)], [random("u", 16, 16)])
    loaded = tensat_dl.load(saved(tmp_path, proto, "open.onnx"), dims={"n": [4, 8]})
    assert run(loaded=loaded)[1]
    assert loaded.onnx is not None
    for one in loaded.onnx.mix:
        alone = replace(loaded, onnx=replace(loaded.onnx, mix=(one,)))
        assert run(loaded=alone)[1]
        assert not run(loaded=alone)[1]


def test_an_answer_has_the_name_of_its_model(run: Run, tmp_path: Path) -> None:
    path = next(tmp_path.glob("*.onnx"))
    for name in ("one", "two"):
        named = onnx.load(path)
        named.graph.name = name
        onnx.save(named, path)
        assert run()[0].after.graph.name == name
        assert not run()[1]


def test_a_search_with_other_costs_is_made(run: Run, tmp_path: Path) -> None:
    run()
    (profile,) = (tmp_path / "profiles").glob("*.profile.json")
    text = profile.read_text()
    data = json.loads(text)
    one, entry = next(iter(data["entries"].items()))
    data["entries"]["relu(f32[7]) -> f32[7] @ cpu"] = entry
    profile.write_text(json.dumps(data))
    assert not run()[1], "what else was measured since does not matter"
    data["entries"][one] = {**entry, "median_ms": 2 * entry["median_ms"]}
    profile.write_text(json.dumps(data))
    assert run()[1]
    assert not run()[1]
    profile.unlink()
    assert run()[1]


@pytest.mark.parametrize("limit", [{"time_limit": 1000.0}, {"extract_time_limit": 1000.0}])
def test_a_search_with_a_limit_of_seconds_is_not_kept(run: Run, limit: dict[str, float]) -> None:
    run(**limit)
    assert run(**limit)[1]


def test_a_search_whose_measurements_were_cut_short_is_not_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "cut_short", True)
    run()
    assert run()[1]


def test_a_search_that_was_interrupted_is_not_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = finish.search

    def interrupted(*arguments: Any) -> Any:
        return replace(made(*arguments), ended="Ctrl-C ended the search")

    with monkeypatch.context() as here:
        here.setattr(finish, "search", interrupted)
        assert run()[0].interrupted
    assert run()[1]


def test_what_was_not_timed_is_not_said_to_be(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run()

    def contest(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cpu, "contest", contest)
    again, searched = run()
    assert not searched
    assert [note for note in again.notes if "timed" in note or "checked" in note] == [
        "interrupted before candidates were timed: the input is the answer"
    ]


def test_a_damaged_file_is_no_search(run: Run, tmp_path: Path) -> None:
    run()
    (kept,) = (tmp_path / "cache").rglob("searches/*.pickle")
    kept.write_bytes(kept.read_bytes()[:1000])
    assert run()[1]
    assert not run()[1]
