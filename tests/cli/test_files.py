"""Outputs are whole or not there, and never in the way of an input or of each other."""

from __future__ import annotations

import os
import re
import stat
from importlib import import_module
from pathlib import Path

import pytest

from tensat_dl import files

from .processes import linux
from .running import EXAMPLES, invoke

pytestmark = pytest.mark.sampled(3)

SHARED = EXAMPLES / "tiny_share_input.tsr"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write(
    step: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays as it was, and nothing is left beside it."""
    path = tmp_path / "out.tsr"
    path.write_text("as it was\n")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)) as raised:
        files.write(str(path), "new\n")
    if isinstance(raised.value, OSError):
        assert raised.value.filename == str(path)
    assert path.read_text() == "as it was\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_kept(tmp_path: Path) -> None:
    """A link stays a link, and permissions stay what they were."""
    path, link = tmp_path / "real.tsr", tmp_path / "link.tsr"
    path.write_text("old\n")
    path.chmod(0o640)
    link.symlink_to(path)
    files.write(str(link), "new\n")
    assert link.is_symlink()
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    long = tmp_path / ("n" * 255)
    files.write(str(long), "new\n")
    assert long.read_text() == "new\n"


@pytest.mark.parametrize("option", ["-o", "--json", "--html", "--dot", "--signatures", "--save-egraph"])
def test_outputs_that_cannot_be_written(option: str, tmp_path: Path) -> None:
    """Known before the work is done."""
    file = tmp_path / "file"
    file.write_text("as it was\n")
    for path, message in [
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "out", "no such folder"),
        (file / "out", "no such folder"),
        ("", "empty"),
        (f"{file}/", "is a directory"),
    ]:
        done = invoke("run", SHARED, option, path)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")
        assert message in done.err
    assert file.read_text() == "as it was\n"


def test_an_output_that_is_a_link_to_itself(tmp_path: Path) -> None:
    loop = tmp_path / "loop.tsr"
    loop.symlink_to(loop)
    done = invoke("run", SHARED, "-o", loop)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {loop}: too many levels of symbolic links")
    assert invoke("run", loop, "-o", tmp_path / "out.tsr").code == 2


@linux
@pytest.mark.parametrize("name", ["none.onnx", "none.tsr", "none.json"])
def test_a_folder_that_takes_no_files(name: str) -> None:
    """Root may write there, the system says."""
    option = "--json" if name.endswith("json") else "-o"
    done = invoke("run", SHARED, option, f"/proc/{name}")
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(f"error: /proc/{name}: (no file can be made there|permission denied)\n", done.err)


def test_a_device_in_a_folder_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As /dev is for all but root."""
    monkeypatch.setattr(os, "access", lambda path, _: str(path) == os.devnull)
    files.check_writable([os.devnull])
    with pytest.raises(PermissionError):
        files.check_writable([f"{os.devnull}-none"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = invoke("run", SHARED, "-o", tmp_path / "out.tsr")
    tmp_path.chmod(0o700)
    assert done.code == 2
    assert "permission denied" in done.err


def test_outputs_that_would_overwrite_something(tmp_path: Path) -> None:
    """Written over its own input, a graph would lose its rules; two outputs cannot share a file."""
    path, link = tmp_path / "in.tsr", tmp_path / "link.tsr"
    path.write_text(SHARED.read_text())
    link.symlink_to(path)
    for out in (path, link, tmp_path / "." / "in.tsr"):
        done = invoke("run", path, "-o", out)
        assert done.code == 2
        assert "is an input" in done.err
    assert invoke("run", SHARED, "--rules", path, "--json", path).code == 2
    importing = tmp_path / "main.tsr"
    importing.write_text('import "./rules.tsr"\ngraph g {\n  input x : f32[2]\n  output relu(x)\n}\n')
    (tmp_path / "rules.tsr").write_text("rule r { relu(relu(x)) => relu(x) }\n")
    done = invoke("run", importing, "--json", tmp_path / "rules.tsr")
    assert (done.code, "is an input" in done.err) == (2, True)
    for args in (["-o", "-", "--json", "-"], ["-o", tmp_path / "o", "--html", tmp_path / "o"]):
        done = invoke("run", path, *args)
        assert (done.code, done.out) == (2, "")
        assert "two outputs" in done.err
    assert path.read_text() == SHARED.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.tsr", "link.tsr", "main.tsr", "rules.tsr"]


@pytest.fixture
def originals(tmp_path: Path) -> dict[Path, str]:
    """A graph, the rules that it imports, and others; with what is in them."""
    texts = {
        "rules.tsr": "rule r { relu(relu(x)) => relu(x) }\n",
        "more.tsr": "rule s { relu(relu(relu(x))) => relu(x) }\n",
        "g.tsr": 'import "./rules.tsr"\ngraph g {\n  input x : f32[2]\n  output relu(relu(x))\n}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {tmp_path / name: text for name, text in texts.items()}


def is_refused(originals: dict[Path, str], *args: object) -> None:
    """The command ends at once, and every file is what it was."""
    done = invoke(*args)
    assert (done.code, done.out) == (2, "")
    assert "is an input, which would be lost" in done.err
    assert {path: path.read_text() for path in originals} == originals


@pytest.mark.parametrize("name", ["g.tsr", "rules.tsr"])
@pytest.mark.parametrize(
    "command",
    [
        *(("time", "--device", "cpu"), ("check",), ("bench", "models"), ("bench", "join")),
        *(("bench", "k-multi"), ("bench", "cycles"), ("bench", "extraction"), ("bench", "gpu")),
    ],
    ids=" ".join,
)
def test_results_that_would_overwrite_what_is_read(
    command: tuple[str, ...], name: str, tmp_path: Path, originals: dict[Path, str]
) -> None:
    """The file itself, or one that it imports."""
    is_refused(originals, *command, tmp_path / "g.tsr", "--json", tmp_path / name)


def test_checking_a_file_with_errors(tmp_path: Path, originals: dict[Path, str]) -> None:
    """What it imports is not overwritten either."""
    bad = tmp_path / "bad.tsr"
    originals[bad] = 'import "./rules.tsr"\nrule s { none(x) => x }\n'
    bad.write_text(originals[bad])
    is_refused(originals, "check", bad, "--json", tmp_path / "rules.tsr")


@pytest.mark.parametrize("name", ["g.tsr", "rules.tsr", "more.tsr", "out.tsr"])
def test_steps_that_would_overwrite_the_original(
    name: str, tmp_path: Path, originals: dict[Path, str]
) -> None:
    """The comment in an optimized graph says what it was made of."""
    out, html = tmp_path / "out.tsr", tmp_path / name
    assert invoke("run", tmp_path / "g.tsr", "--rules", tmp_path / "more.tsr", "-q", "-o", out).code == 0
    originals[out] = out.read_text()
    is_refused(originals, "why", out, "--html", html)


def test_costs_and_profiles(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("{}")
    is_refused({path: "{}"}, "costs", path, "--json", path)
    is_refused({path: "{}"}, "profile", path, "-o", path)
    is_refused({path: "{}"}, "extract", path, "--json", path)


@pytest.mark.parametrize("option", ["--json", "--html", "--dot", "--signatures", "--save-egraph"])
def test_the_file_of_a_models_weights(option: str, tmp_path: Path) -> None:
    """A model may get it, whether or not this one does."""
    pytest.importorskip("onnx_ir")
    pytest.importorskip("onnxruntime")
    model = tmp_path / "out.onnx"
    done = invoke("run", SHARED, "-o", model, option, f"{model}.data")
    assert (done.code, done.out) == (2, "")
    assert "the weights of" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "phase", [("tensat_dl.extract.api", "improve"), ("tensat_dl.run.checked", "compare")]
)
def test_interrupted_after_exploring(
    phase: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while extracting: the best result so far is written. While verifying: nothing that is not verified."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    module, name = phase
    monkeypatch.setattr(import_module(module), name, interrupt)
    out = tmp_path / "out.tsr"
    done = invoke("run", SHARED, "-o", out)
    assert done.code == 130
    assert "interrupted: " in done.out
    assert ("skipped" in done.out) == (name == "compare")
    monkeypatch.undo()
    assert out.exists() == (name != "compare")
    if out.exists():
        assert invoke("fmt", "--check", out).code == 0
    else:
        assert f"{out} is not written" in done.err
