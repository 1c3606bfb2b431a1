"""Runs of models are measured by default; here they take little time, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx_ir")
    from tests.measure.quick import quick

    quick(monkeypatch, Path(tmp_path_factory.mktemp("profiles")))
