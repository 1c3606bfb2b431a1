"""The notebook of the examples runs from top to bottom, and what its cells end with can be shown."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from snippets import ROOT

NOTEBOOK = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(c["source"]) for c in NOTEBOOK["cells"] if c["cell_type"] == "code"]


def run(cell: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does. Returns the value of its last expression, if it ends with one."""
    *body, last = ast.parse(cell).body
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], ast.Expr(ast.Constant(None))
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_its_cells_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")  # as Jupyter does
    names: dict[str, Any] = {}
    shown = [value for cell in CODE if (value := run(cell, names)) is not None]
    assert [type(value).__name__ for value in shown] == ["Model", "Result", "Explanation", "Verdicts"]
    assert all("<pre" in value._repr_html_() for value in shown)
    assert names["result"].after.total < names["result"].before.total
    out = capsys.readouterr()
    assert out.out.startswith("// made by: tensat-dl run tiny_share_input.tsr\n")
    assert "explore" in out.err


def test_it_is_stored_without_outputs() -> None:
    assert NOTEBOOK["nbformat"] == 4
    assert all(not c["outputs"] and c["execution_count"] is None for c in NOTEBOOK["cells"] if "outputs" in c)
