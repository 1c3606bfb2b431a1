"""The snippets of docs/pytorch.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tensat_dl.torch  # noqa: E402

DOCUMENT = Path(__file__).parents[2] / "docs" / "pytorch.md"


def test_the_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    optimize = tensat_dl.torch.optimize
    monkeypatch.setattr("tensat_dl.torch.optimize", lambda *a, **k: optimize(*a, **{"measure": False, **k}))
    torch.compiler.reset()
    names: dict[str, Any] = {"__name__": "snippets"}
    snippets = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for snippet in snippets:
        exec(compile(snippet, "docs/pytorch.md", "exec"), names)
    assert len(snippets) == 7
    with torch.no_grad():
        expected, found = names["model"](names["x"]), names["fast"](names["x"])
    torch.testing.assert_close(found["y"], expected["y"])
    printed = capsys.readouterr().out
    for text in ("called  ", "it was made for float32[8, 32]", "gate.weight has changed"):
        assert text in printed
    assert {"faster.onnx", "why.html"} <= {p.name for p in tmp_path.iterdir()}
