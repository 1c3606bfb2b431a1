"""``tensat-dl coverage``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import invoke


def test_own_operators(tmp_path: Path) -> None:
    own, holes, report, out = (tmp_path / name for name in ("own.tsr", "holes.tsr", "report.json", "page.md"))
    own.write_text("/// 2 x.\nop twice(x: tensor) = ewadd(x, x)\n", encoding="utf-8")
    arguments = (own, "--by", "scale,shift,slice", "--from", "transpose", "--jobs", 1)
    done = invoke("coverage", *arguments, "--holes", holes, "--json", report, "-o", out)
    assert done.code == 1, done.err
    assert "twice(smul(x, s)) = smul(twice(x), s)" in done.out
    assert done.out.splitlines()[-1].startswith("3 cells: 3 true, but no rule derives it in ")
    assert done.err == ""  # nobody watches
    text = holes.read_text(encoding="utf-8")
    assert 'import "own.tsr"\n' in text
    assert invoke("fmt", "--check", holes).code == 0
    assert invoke("check", holes).code == 0
    cells = json.loads(report.read_text(encoding="utf-8"))["cells"]
    assert [c["transformation"] for c in cells] == ["slice", "scale", "shift"] or len(cells) == 3
    assert "| [twice](#twice) |" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ops", "matmull"), "no operator `matmull`"),
        (("--ops", "fill"), "has no operands"),
        (("--ops", "relu", "--by", "rotate"), "no transformation is called `rotate`"),
        (("--ops", "relu", "--from", "nopack"), "no rule pack `nopack`"),
        (("--ops", "relu", "--jobs", 0), "x>=1"),
    ],
)
def test_bad_input_is_a_sentence(arguments: tuple[object, ...], message: str) -> None:
    done = invoke("coverage", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_again_keeps_what_is_known_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "cells.json"
    monkeypatch.setattr("tensat_dl.coverage.work._place", lambda: place)
    asked = ("--by", "scale", "--from", "transpose", "--jobs", 1)
    for again, ops in (((), "neg"), (("--again",), "abs")):
        invoke("coverage", *again, "--ops", ops, *asked)
    known = json.loads(place.read_text(encoding="utf-8"))["known"]
    assert {data["op"] for data in known.values() if "op" in data} == {"neg", "abs"}
