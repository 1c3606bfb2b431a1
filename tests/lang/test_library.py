"""The library is read once for each user, and again when it or the program has changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensat_dl import kept
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.kept import folder
from tensat_dl.lang import library
from tensat_dl.lang.library import LibraryRule, library_compositions, library_operators, packs, packs_with
from tensat_dl.lang.program import load_program

CACHES = (library._library, library._operators, library.items, library.library_operators)

pytestmark = pytest.mark.sampled(3)


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user without a cache, in a process that has read nothing; afterwards the process reads its own again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _forget()
    yield
    _forget()


def _forget() -> None:
    for function in CACHES:
        function.cache_clear()


def _files() -> list[Path]:
    return sorted(folder("library").glob("*.pickle"))


def _rewrites() -> dict[str, str]:
    return {
        r.name: repr(r)
        for pack in packs()
        for item in library.items(f"{pack}.tsr")
        if isinstance(item, LibraryRule)
        for r in item.rewrites
    }


def test_the_library_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, operators, composed = _rewrites(), repr(dict(library_operators())), repr(library_compositions())
    _forget()
    monkeypatch.setattr(library, "_read", lambda: pytest.fail("was read again"))
    assert _rewrites() == first
    assert repr(dict(library_operators())) == operators
    assert repr(library_compositions()) == composed
    assert len(_files()) == 1


@pytest.mark.parametrize("damage", [b"", b"no pickle", b"\x80\x05cos\nsystem_\n."])
def test_a_damaged_file_is_replaced(damage: bytes) -> None:
    operators = repr(dict(library_operators()))
    (file,) = _files()
    whole = file.read_bytes()
    file.write_bytes(damage or whole[: len(whole) // 2])
    _forget()
    assert repr(dict(library_operators())) == operators
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_made_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the place of a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "relu" in library_operators()
    assert (tmp_path / "file").read_text() == "in the place of a folder"


def test_a_changed_pack_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / "rules"
    ours.mkdir()
    for path in library.folder().glob("*.tsr"):
        (ours / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(library, "folder", lambda: ours)
    assert packs_with("mine") == []
    (ours / "matmul.tsr").write_text("rule mine { relu(relu(x)) => relu(x) }", encoding="utf-8")
    _forget()
    assert packs_with("mine") == ["matmul"]
    assert len(_files()) == 2
    (ours / "matmul.tsr").write_text(
        "rule mine { relu(x => x }\n\nrule other { tanh(x) => y }", encoding="utf-8"
    )
    _forget()
    with pytest.raises(TsrError) as raised:
        packs_with("mine")
    assert [d.span.place for d in raised.value.diagnostics if d.span] == ["rules/matmul.tsr:1:17"]
    assert len(_files()) == 2


def test_old_files_are_removed() -> None:
    for key in "abc":
        assert kept.kept("kind", key, lambda key=key: key * 3, most=2) == key * 3
    assert {p.stem for p in folder("kind").iterdir()} == {"b", "c"}
    assert kept.kept("kind", "c", lambda: pytest.fail("was computed again")) == "ccc"


def test_programs_started_at_once_agree(tmp_path: Path) -> None:
    script = "from tensat_dl.lang.library import library_operators; print(len(library_operators()))"
    started = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = {process.communicate()[0] for process in started}
    assert len(said) == 1
    assert int(said.pop()) == len(library_operators())
    assert len(_files()) == 1


def test_a_pack_that_is_checked_is_read_as_it_is_written() -> None:
    program = load_program(str(library.folder() / "matmul.tsr"))
    assert len(program.tests) > 0
    assert set(program.own_rules) <= {r.declared for r in program.rules}
