"""Digests of models and of inputs, and a comparison that is known by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx import TensorProto, helper

from tensat_dl.onnx.agreement import Reference
from tensat_dl.onnx.digests import digest_of_comparison, digest_of_feeds, digest_of_model
from tensat_dl.onnx.exporter import export
from tensat_dl.onnx.importer import Imported, import_model
from tensat_dl.onnx.model_files import save
from tensat_dl.onnx.write import write_back
from tests.onnx_files.models import read


def test_a_comparison_is_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _model(tmp_path / "m.onnx", 1, False)
    imported = read(tmp_path, onnx.load(path))
    graph = replace(imported.graph)  # written by the exporter, unlike the very graph
    file = save(export(imported, graph), tmp_path / "candidate.onnx")
    known = replace(Reference.of(imported, 3).check(str(file)), of=digest_of_comparison(imported, 3, file))
    made: list[int] = []
    first = Reference.of

    def of(imported: Imported, seed: int) -> Reference:
        made.append(seed)
        return first(imported, seed)

    monkeypatch.setattr(Reference, "of", of)
    out = str(tmp_path / "out.onnx")
    assert write_back(imported, graph, out, 3, known).agreement is known
    assert not made
    assert (tmp_path / "out.onnx").read_bytes() == file.read_bytes()
    assert write_back(imported, graph, out, 4, known).agreement.status == "agrees"
    assert write_back(imported, graph, out, 3, replace(known, of="")).agreement.status == "agrees"
    assert write_back(imported, graph, out, 3).agreement.status == "agrees"
    assert write_back(replace(imported, dims={"n": 2}), graph, out, 3, known).agreement.status == "agrees"
    assert made == [4, 3, 3, 3], "other inputs, nothing known, and other sizes"
    again = import_model(imported.path, {})
    assert write_back(again, graph, out, 3, known).agreement.status == "agrees"
    assert len(made) == 5, "the file may have been another"


def test_digests(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    feeds: list[dict[str, Any]] = [
        {"x": x},
        {"y": x},
        {"x": x.T},
        {"x": x.astype(np.float64)},
        {"x": 2 * x},
        {"x": x, "y": x},
    ]
    assert len({digest_of_feeds(f) for f in feeds}) == len(feeds)
    assert digest_of_feeds({"x": x, "y": x}) == digest_of_feeds({"y": x, "x": x})
    assert digest_of_feeds({"x": np.array(["a"], object)}) == ""
    found = [
        digest_of_model(_model(tmp_path / name, value, False))
        for name, value in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert found[0] == found[1] != found[2], "names of files do not matter"
    assert digest_of_model(_model(tmp_path / "d", 1, True)) == ""


def _model(path: Path, value: float, external: bool) -> Path:
    weight = helper.make_tensor(
        "w", TensorProto.FLOAT, [4], np.full(4, value, np.float32).tobytes(), raw=True
    )
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, size_threshold=0)
    return path
