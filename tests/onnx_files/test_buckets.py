"""Models for ranges of sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_node

import tensat_dl
from tensat_dl.core.progress import Progress
from tensat_dl.measure import cpu
from tensat_dl.onnx.ranges import METADATA
from tensat_dl.run import buckets, of_model
from tensat_dl.run.buckets import PROBES, meet, split
from tensat_dl.run.machines import aimed
from tensat_dl.run.model import Model
from tensat_dl.run.of_model import optimize_model
from tensat_dl.run.options import Options, sizes_of
from tensat_dl.run.pipeline import optimize
from tensat_dl.run.result import SERVES, Result
from tests.cli.running import EXAMPLES, invoke

from .models import model, random, saved, value


def test_as_few_graphs_as_serve() -> None:
    assert split([[1.0, 1.0], [1.04, 0.96]]) == [(0, 2, 1)]
    assert split([[1.0, 1.0, 2.0], [2.0, 2.0, 1.0]]) == [(0, 2, 0), (2, 3, 1)]
    assert split([[1.0, 3.0, 1.0], [3.0, 1.0, 3.0]]) == [(0, 1, 0), (1, 2, 1), (2, 3, 0)]
    assert split([[1.0, 1.0], [1.0, 1.0]]) == [(0, 2, 0)], "the first of equals is for all sizes"


@given(st.lists(st.lists(st.floats(1, 2), min_size=4, max_size=4), min_size=1, max_size=4))
def test_each_size_has_a_graph_that_serves_it(table: list[list[float]]) -> None:
    groups = split(table)
    assert [start for start, _, _ in groups] == [0, *(stop for _, stop, _ in groups[:-1])]
    assert groups[-1][1] == 4
    for start, stop, g in groups:
        for i in range(start, stop):
            assert table[g][i] <= SERVES * min(row[i] for row in table)
    assert len(groups) == 1 or not any(
        all(row[i] <= SERVES * min(r[i] for r in table) for i in range(4)) for row in table
    )


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 1000))
def test_buckets_meet_between_their_sizes(low: int, more: int, border: int) -> None:
    asked: list[int] = []

    def faster(n: int) -> bool:
        asked.append(n)
        return n >= border

    found = meet(low, low + more, faster)
    assert low < found <= low + more
    assert len(asked) <= PROBES
    assert all((n >= border) == (n >= found) for n in asked)
    assert meet(low, low + more, lambda n: None) == low + more


def products(seq: int | str = "seq") -> Any:
    """(x y) z, which is x (y z): for few rows the former takes less, for many rows the latter."""
    nodes = [make_node("MatMul", ["x", "y"], ["xy"]), make_node("MatMul", ["xy", "z"], ["out"])]
    inputs = [value("x", seq, 256), value("y", 256, 256), value("z", 256, 256)]
    return model(nodes, inputs, [value("out", seq, 256)])


ARGUMENTS = ("--no-measure", "--max-iters", 3)


def test_sizes_that_want_different_graphs(tmp_path: Path) -> None:
    path, out, report = saved(tmp_path, products()), tmp_path / "faster.onnx", tmp_path / "report.json"
    page = tmp_path / "report.html"
    done = invoke(
        *("run", path, "-o", out, *ARGUMENTS, "--json", report, "--html", page, "--buckets"),
        *("--dim", "seq=1..1024=4,1024"),
    )
    assert (done.code, done.err) == (0, ""), done.out
    assert not out.exists(), done.out
    told = json.loads(report.read_text())["buckets"]
    first, second = told["parts"]
    assert (first["low"], second["high"]) == (1, 1024)
    assert first["high"] + 1 == second["low"]
    assert told["gain"] > SERVES
    names = [f"faster.1-{first['high']}.onnx", f"faster.{second['low']}-1024.onnx"]
    assert told["outputs"] == [str(tmp_path / name) for name in names]
    assert f"buckets       seq = 1-{first['high']}: " in done.out
    for part in told["parts"]:
        assert f"<td>seq = {part['low']}-{part['high']}</td>" in page.read_text()
    before = onnxruntime.InferenceSession(path)
    for name, rows in zip(names, (first["high"], 1024), strict=True):
        made = onnx.load(tmp_path / name)
        after = onnxruntime.InferenceSession(tmp_path / name)
        feeds = {
            i.name: np.random.default_rng(0).standard_normal([rows if d == "seq" else d for d in i.shape])
            for i in before.get_inputs()
        }
        feeds = {k: v.astype(np.float32) for k, v in feeds.items()}
        a, b = (s.run(None, feeds)[0] for s in (before, after))
        np.testing.assert_allclose(a, b, atol=1e-3 * np.abs(a).max())
        assert made.metadata_props or made == onnx.load(path)
    ranges = [
        p.value for name in names for p in onnx.load(tmp_path / name).metadata_props if p.key == METADATA
    ]
    assert ranges, "one of them differs from the original"


def test_one_graph_serves_all(tmp_path: Path) -> None:
    nodes = [
        make_node("MatMul", ["x", "a"], ["xa"]),
        make_node("MatMul", ["x", "b"], ["xb"]),
        make_node("Add", ["xa", "xb"], ["y"]),
    ]
    weights = [random("a", 64, 64), random("b", 64, 64)]
    path = saved(tmp_path, model(nodes, [value("x", "seq", 64)], [value("y", "seq", 64)], weights))
    out = tmp_path / "faster.onnx"
    done = invoke("run", path, "-o", out, *ARGUMENTS, "--buckets", "--dim", "seq=32,256")
    assert (done.code, done.err) == (0, "")
    assert "one graph is enough: at seq = 32, 256 it is within 5% of the best for each" in " ".join(
        done.out.split()
    )
    assert [p.name for p in tmp_path.glob("faster*")] == ["faster.onnx"]


def test_ctrl_c_leaves_the_answer_for_all_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(buckets, "find_buckets", interrupted)
    path, out = saved(tmp_path, products()), tmp_path / "faster.onnx"
    done = invoke("run", path, "-o", out, *ARGUMENTS, "--buckets", "--dim", "seq=4,1024")
    assert done.code == 130
    assert "interrupted: the answer for all sizes is used" in " ".join(done.out.split())
    assert out.exists()


def test_buckets_from_python(tmp_path: Path) -> None:
    loaded = tensat_dl.load(saved(tmp_path, products()), dims={"seq": "1..1024=4,1024"})
    result = tensat_dl.optimize(loaded, measure=False, max_iters=3, buckets=True)
    assert result.buckets is not None
    first, second = result.buckets.parts
    assert (first.name, first.low, second.high) == ("seq", 1, 1024)
    assert first.result.after.graph.nodes != second.result.after.graph.nodes
    tensat_dl.save(loaded, result, tmp_path / "faster.onnx")
    names = {f"faster.{b.range}.onnx" for b in (first, second)}
    assert {p.name for p in tmp_path.glob("faster*")} == names
    with pytest.raises(ValueError, match=r"buckets are written as ONNX models, and .* ends in \.tsr"):
        tensat_dl.save(loaded, result, tmp_path / "faster.tsr")
    assert "together" in str(result)


def test_buckets_from_python_need_several_sizes(tmp_path: Path) -> None:
    for path in (saved(tmp_path, products()), EXAMPLES / "tiny_share_input.tsr"):
        with pytest.raises(ValueError, match="buckets need several sizes of a dimension of an ONNX model"):
            tensat_dl.optimize(tensat_dl.load(path), measure=False, buckets=True)


def test_buckets_of_many_models(tmp_path: Path) -> None:
    """Each model gets what concerns it, and another range makes those anew that have several sizes."""
    folder, out = tmp_path / "models", tmp_path / "out"
    folder.mkdir()
    saved(folder, products(), "seq.onnx")
    saved(folder, products(8), "eight.onnx")
    (folder / "tiny.tsr").write_text((EXAMPLES / "tiny_share_input.tsr").read_text())
    arguments = ("batch", folder, "-o", out, "--jobs", 1, *ARGUMENTS, "--buckets")
    done = invoke(*arguments, "--dim", "seq=1..1024=4,1024")
    assert (done.code, done.err) == (0, ""), done.out
    models = json.loads((out / "manifest.json").read_text())["models"]
    parts = models["seq.onnx"]["buckets"]["parts"]
    names = [f"seq.{p['low']}-{p['high']}.onnx" for p in parts]
    assert len(names) == 2
    assert sorted(models["seq.onnx"]["files"]) == sorted(names)
    assert {p.name for p in out.iterdir()} == {*names, "eight.onnx", "tiny.tsr", "manifest.json"}
    assert "3 done before" in invoke(*arguments, "--dim", "seq=1..1024=4,1024").out
    assert "2 done before" in invoke(*arguments, "--dim", "seq=1..1024=8,1024").out


def test_models_of_a_batch_that_would_share_a_file(tmp_path: Path) -> None:
    for name in ("seq.onnx", "seq.1-40.onnx"):
        saved(tmp_path, products(), name)
    arguments = ("batch", tmp_path, "-o", tmp_path / "out", *ARGUMENTS, "--buckets")
    done = invoke(*arguments, "--dim", "seq=4,1024")
    assert done.code == 2
    assert "seq.1-40.onnx may be the name of a bucket of seq.onnx" in done.err


def test_a_batch_with_buckets_needs_several_sizes(tmp_path: Path) -> None:
    saved(tmp_path, products())
    done = invoke("batch", tmp_path, "-o", tmp_path / "out", *ARGUMENTS, "--buckets", "--dim", "seq=4")
    assert done.code == 2
    assert "buckets need several sizes of a dimension" in done.err


def test_what_buckets_need(tmp_path: Path) -> None:
    path = saved(tmp_path, products())
    for dims in ((), ("--dim", "seq=4"), ("--dim", "seq=1..4")):
        done = invoke("run", path, *ARGUMENTS, "--buckets", *dims)
        assert done.code == 2
        assert "buckets need several sizes of a dimension of an ONNX model, such as seq=1..512" in done.err
    for arguments in ((EXAMPLES / "tiny_share_input.tsr",), (path, "-o", tmp_path / "out.tsr")):
        done = invoke("run", *arguments, "--buckets")
        assert done.code == 2
        assert "--buckets is for ONNX models, and writes ONNX models" in done.err


def test_a_model_that_stays_is_as_fast_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By measured times, which the noise of a second timing would change."""

    def timed(models: Any, feeds: Path, *_: Any, **__: Any) -> Any:
        with np.load(feeds) as arrays:
            rows = arrays["x"].shape[0]
        return [[1.0, *([1.1 if rows < 100 else 0.5] * (len(models) - 1))]] * 4

    monkeypatch.setattr(cpu, "time_in_fresh_process", timed)
    loaded = tensat_dl.load(saved(tmp_path, products()), dims={"seq": "1..1024=4,1024"})
    options = aimed(Options(measure=False, max_iters=3), of_onnx=True)
    assert loaded.onnx is not None
    sizes = sizes_of(loaded.onnx, options)
    graph, ops = loaded.graph, loaded.ops
    whole, _ = optimize(graph, ops, loaded.rules, options, unfit=loaded.unfit, sizes=sizes)
    monkeypatch.setattr(of_model, "machine_of", lambda *_: None)  # operators have estimated prices
    whole = replace(whole, options=replace(options, measure=True))

    def alone(one: Model) -> Result:
        return optimize_model(one, whole.options, rules=whole.rules)[0]

    found = buckets.find_buckets(loaded, whole, alone, Progress())
    first, second = found.parts
    assert (first.result.after.graph.nodes, second.result.after.graph.nodes == graph.nodes) == (
        graph.nodes,
        False,
    )
    assert dict(first.ratios) == {4: 1.0}
    assert dict(second.ratios) == {1024: 0.5}
