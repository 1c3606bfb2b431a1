"""Files that are refused: with one message, and nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

from onnx.helper import make_node

from tests.cli.running import invoke

from .models import model, random, value


def product(rows: int | str | None = 4, opset: int = 17) -> Any:
    nodes = [make_node("MatMul", ["x", "w"], ["p"]), make_node("Relu", ["p"], ["y"])]
    return model(nodes, [value("x", rows, 64)], [value("y", rows, 32)], [random("w", 64, 32)], opset)


def refused(path: object, *options: object, say: str, hint: str = "") -> None:
    """`run` and `show` print one message, and write nothing."""
    folder = Path(str(path)).parent
    before = sorted(folder.iterdir()) if folder.is_dir() else []
    for command in (("run", path, "-o", folder / "new.onnx", *options), ("show", path, *options)):
        done = invoke(*command)
        assert done.code == 2, done
        assert say in done.err, done.err
        assert hint in done.err, done.err
        assert done.err.count("error:") == 1
        assert done.out == ""
    assert (sorted(folder.iterdir()) if folder.is_dir() else []) == before
