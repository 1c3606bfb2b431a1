"""``tensat-dl discover``: what it writes is a pack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensat_dl.discover import discover
from tests.cli.running import Done, invoke


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done, dict[str, object]]:
    folder = tmp_path_factory.mktemp("discover")
    path, report = folder / "found.tsr", folder / "found.json"
    done = invoke("discover", "--ops", "matmul,relu", "--size", 2, "-o", path, "--json", report)
    return path, done, json.loads(report.read_text(encoding="utf-8"))


def test_the_file_is_a_pack(pack: tuple[Path, Done, dict[str, object]]) -> None:
    path, done, report = pack
    assert done.code == 0, done.err
    assert done.out.startswith(f"{path}: 3 rules of ")
    assert done.err == ""  # nobody watches
    assert invoke("fmt", "--check", path).code == 0
    assert invoke("check", path).code == 0
    assert not Path(f"{path}.partial").exists()
    assert "/// (x @ y) @ z = x @ (y @ z).\n" in path.read_text(encoding="utf-8")
    rules = report["rules"]
    assert isinstance(rules, list)
    assert len(rules) == 3


def test_no_rule_follows_from_the_others(pack: tuple[Path, Done, dict[str, object]]) -> None:
    done = invoke("prove", pack[0], "--from", pack[0])
    assert ": 0 of " in done.out, done.out


def test_own_operators_are_imported(tmp_path: Path) -> None:
    own, laws = tmp_path / "own.tsr", tmp_path / "laws.tsr"
    own.write_text("/// 2 x.\nop twice(x: tensor) = ewadd(x, x)\n", encoding="utf-8")
    done = invoke("discover", own, "--op", "twice", "--ops", "relu", "--size", 2, "-o", laws)
    assert done.code == 0, done.err
    text = laws.read_text(encoding="utf-8")
    assert 'import "own.tsr"\n' in text
    assert "relu(twice(x))" in text
    assert invoke("check", laws).code == 0


def test_an_interruption_that_found_nothing_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "found.tsr"
    path.write_text("// of yesterday\n", encoding="utf-8")
    monkeypatch.setattr(discover, "discover", lambda *_: discover.Discovery((), 0, 0, interrupted=True))
    done = invoke("discover", "--ops", "relu", "-o", path)
    assert (done.code, path.read_text(encoding="utf-8")) == (130, "// of yesterday\n")
    assert f"{path} is not written: 0 rules" in done.out


def test_there_may_be_nothing_to_go_on_with(tmp_path: Path) -> None:
    done = invoke("discover", "--ops", "relu", "--size", 1, "--resume", "-o", tmp_path / "found.tsr")
    assert done.code == 0
    assert "nothing of this discovery is there to go on with" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the operators"),
        (("--ops", "matmull"), "no operator `matmull`"),
        (("--ops", "reshape"), "can't be explored"),
        (("--ops", "ewadd", "--with", "nopack"), "no rule pack `nopack`"),
        (("--ops", "matmul,ewadd,concat", "--size", 14), "would take about"),
        (("--ops", "ewadd", "--size", 0), "x>=1"),
    ],
)
def test_bad_input_is_a_sentence(arguments: tuple[object, ...], message: str, tmp_path: Path) -> None:
    done = invoke("discover", *arguments, "-o", tmp_path / "found.tsr")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
