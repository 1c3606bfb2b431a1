"""The code of tensat-dl as nodes of a cluster get it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import pytest

from tensat_dl.jobs import shipped
from tensat_dl.jobs.identity import differences, environment, identity
from tensat_dl.jobs.package import archive, code_digest
from tensat_dl.jobs.shipped import MOST, unpacked
from tests.cli.running import EXAMPLES, invoke


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "cache" / "tensat-dl" / "code"


def packed(**files: str) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}/{name}.txt", text)
    return made.getvalue()


def test_the_code_runs_where_it_is_unpacked(cache: Path, tmp_path: Path) -> None:
    """.. with its grammar, rules and versions, though no other tensat-dl can be imported."""
    digest, data = archive()
    place = unpacked(digest, data)
    assert place == cache / digest
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(ONLY_SHIPPED)
    path = os.pathsep.join([str(place), str(tmp_path / "blocked")])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    model, answer = EXAMPLES / "tiny_fuse_relu.tsr", tmp_path / "answer.tsr"
    command = [sys.executable, "-m", "tensat_dl", "run", str(model), "-q", "-o", str(answer)]
    subprocess.run(command, env=env, check=True, cwd=EXAMPLES.parent)
    assert invoke("run", model, "-q", "-o", tmp_path / "here.tsr").code == 0
    assert answer.read_bytes() == (tmp_path / "here.tsr").read_bytes()
    says = (
        "import tensat_dl, tensat_dl.jobs.identity as i, tensat_dl.resources as r;"
        "print(tensat_dl.__file__, r.examples(), r.kernels.__name__, i.identity(), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", says], env=env, check=True, capture_output=True, text=True)
    file, examples, _, there = done.stdout.splitlines()
    assert Path(file).parent.parent == Path(examples).parent == place
    assert there == identity()


#: A ``sitecustomize`` for processes that can't import a tensat-dl which was not sent there.
ONLY_SHIPPED = """
import sys
from importlib.machinery import PathFinder
class OnlyShipped:
    def find_spec(self, name, path=None, target=None):
        if path is None and name.startswith("tensat_dl"):
            sent = [p for p in sys.path if "tensat-dl/code/" in p]
            if (spec := PathFinder.find_spec(name, sent)) is None:
                raise ModuleNotFoundError(name)
            return spec
sys.meta_path.insert(0, OnlyShipped())
"""


def test_what_is_damaged_is_unpacked_again(cache: Path) -> None:
    data = packed(a="1", b="2")
    place = unpacked("x", data)
    (place / "a" / "__pycache__").mkdir()  # Python writes there
    before = place.stat().st_ino
    assert unpacked("x", data) == place
    assert place.stat().st_ino == before
    for damage in (lambda p: p.write_text("3"), Path.unlink):
        damage(place / "b" / "b.txt")
        unpacked("x", data)
        assert (place / "b" / "b.txt").read_text() == "2"
    assert [p.name for p in cache.iterdir()] == ["x"]


def test_the_versions_that_were_used_last_are_kept(cache: Path) -> None:
    for i in range(MOST + 3):
        unpacked("first", packed(a="0"))
        unpacked(str(i), packed(a=str(i)))
    assert len(list(cache.iterdir())) == MOST
    assert (cache / "first").exists()


def test_without_a_cache_the_code_is_among_temporary_files(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert unpacked("x", packed(a="1")) == tmp_path / f"tensat-dl-{os.getuid()}" / "code" / "x"
    monkeypatch.setattr(shipped, "_parents", lambda: [tmp_path / "cache" / "deeper"])
    with pytest.raises(OSError, match="Not a directory"):
        unpacked("x", packed(a="1"))


def test_identity() -> None:
    """.. is of the code and of what runs it: another version of either is another one."""
    here = environment()
    assert here["Python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = set()
    for name in ("Python", "numpy", "none"):
        identity.cache_clear()
        with patch("tensat_dl.jobs.identity.environment", lambda name=name: {**here, name: "0.1"}):
            found.add(identity())
    identity.cache_clear()
    with patch("tensat_dl.jobs.identity.code_digest", lambda: "other"):
        found.add(identity())
    identity.cache_clear()
    assert len(found | {identity()}) == 5
    assert differences(here, here) == ""
    assert differences({"numpy": "1.0", "z": "2"}, {"numpy": "1.1", "z": "2"}) == "numpy 1.0 and here 1.1"
    assert len(code_digest()) == 64
