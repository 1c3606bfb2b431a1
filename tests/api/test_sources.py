"""What `load` reads and what `save` writes."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tensat_dl
from tests.cli.running import invoke

SHARED = Path(__file__).parents[2] / "examples" / "tiny_share_input.tsr"
TEXT = SHARED.read_text(encoding="utf-8")


def test_paths_texts_and_open_files_are_the_same_model(model: tensat_dl.Model) -> None:
    with open(SHARED, encoding="utf-8") as file:
        models = [tensat_dl.load(str(SHARED)), tensat_dl.load(file), tensat_dl.load(text=TEXT)]
    models.append(tensat_dl.load(io.StringIO(TEXT.replace("\n", "\r\n"))))
    for other in models:
        assert other.graph == model.graph
        assert [r.content for r in other.rules] == [r.content for r in model.rules]


def test_imports_are_relative_to_the_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "once.tsr").write_text("rule once { relu(relu(x)) => relu(x) }\n")
    text = 'import "./once.tsr"\ngraph g {\n  input x : f32[4]\n  output relu(x)\n}\n'
    (tmp_path / "g.tsr").write_text(text)
    with open(tmp_path / "g.tsr") as file:
        assert "once" in [r.name for r in tensat_dl.load(file).rules]
    with pytest.raises(tensat_dl.TsrError, match="<text>:1:1: error: nothing to import"):
        tensat_dl.load(text=text)
    monkeypatch.chdir(tmp_path)
    assert "once" in [r.name for r in tensat_dl.load(text=text).rules]


@pytest.mark.parametrize(
    ("arguments", "error", "say"),
    [
        ({}, TypeError, "takes a path or an open file, or else a text"),
        ({"source": "g.tsr", "text": TEXT}, TypeError, "takes a path or an open file, or else a text"),
        ({"source": 7}, TypeError, "a path or an open file is needed, not int"),
        ({"source": TEXT}, ValueError, r"a text is given as load\(text=..\)"),
        ({"text": "graph g {"}, tensat_dl.TsrError, "<text>:1:"),
        ({"text": "graph g \0"}, tensat_dl.TsrError, "NUL"),
        ({"text": "graph g \ud800"}, tensat_dl.TsrError, "not UTF-8"),
        ({"text": TEXT, "dims": {"n": 1}}, tensat_dl.TsrError, "has no size `n`"),
        ({"source": "g.tsr", "rules": Path("taso")}, TypeError, r"rules=\['taso'\]"),
        ({"source": "g.tsr", "rules": None}, TypeError, r"rules is None: expected a list of packs"),
        ({"source": "g.tsr", "rules": [7]}, TypeError, r"rules is \[7\]: expected a list of packs"),
        ({"source": "g.tsr", "dims": 7}, TypeError, "dims is 7: expected sizes by name"),
        ({"text": TEXT, "dims": {7: 7}}, TypeError, "dims is {7: 7}: expected sizes by name"),
        ({"text": TEXT, "graph": 7}, TypeError, "graph is 7: expected a name"),
        ({"text": TEXT.encode()}, TypeError, "text is b'.*: expected a string"),
        ({"source": "m.onnx", "inputs": 7}, TypeError, "inputs is 7: expected a path"),
    ],
)
def test_what_cannot_be_read(arguments: dict[str, Any], error: type[Exception], say: str) -> None:
    with pytest.raises(error, match=say):
        tensat_dl.load(**arguments)


def test_a_result_of_something_else(model: tensat_dl.Model, result: tensat_dl.Result, tmp_path: Path) -> None:
    """It would be written as the answer to a graph that it does not compute."""
    text = "graph g(n: 1..9 = 3) {\n  input x : f32[n]\n  output relu(x)\n}\n"
    other = tensat_dl.optimize(tensat_dl.load(text=text))
    out = tmp_path / "out.tsr"
    for call in (tensat_dl.explain, lambda *given: tensat_dl.save(*given, out)):
        with pytest.raises(ValueError, match="the result is of another graph"):
            call(model, other)
        with pytest.raises(ValueError, match="the result is of another graph"):
            call(tensat_dl.load(text=text, dims={"n": 4}), other)
        with pytest.raises(TypeError, match=r"\(\) takes what optimize\(\) returned, not NoneType"):
            call(model, None)
        call(tensat_dl.load(text=TEXT), result)
    with pytest.raises(TypeError, match="path is 7: expected a path"):
        tensat_dl.save(model, result, 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rules is 7: expected RewriteRules"):
        tensat_dl.optimize(model, 7)  # type: ignore[arg-type]


def test_a_file_in_the_wrong_mode() -> None:
    with open(SHARED, "rb") as file, pytest.raises(ValueError, match="open it in text mode"):
        tensat_dl.load(file)


def made_by(text: str) -> str:
    return text.splitlines()[0]


def test_save_writes_what_run_writes(
    model: tensat_dl.Model, result: tensat_dl.Result, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours.tsr", tmp_path / "theirs.tsr"
    tensat_dl.save(model, result, ours)
    assert invoke("run", SHARED, "-q", "-o", theirs).code == 0
    assert ours.read_bytes() == theirs.read_bytes()
    assert invoke("why", ours).code == 0
    assert tensat_dl.load(ours).graph.count() == result.after.graph.count()


def test_options_and_new_operators_are_written(tmp_path: Path) -> None:
    text = "graph f {\n  input x : f32[64, 64]\n  output tanh(relu(x) * x)\n}\n"
    path = tmp_path / "two.tsr"
    path.write_text(text + text.replace("graph f", "graph g"))
    loaded = tensat_dl.load(path, "g", rules=["standard"])
    result = tensat_dl.optimize(loaded, fuse=True, k_multi=None, max_iters=7)
    tensat_dl.save(loaded, result, tmp_path / "ours.tsr")
    options = "--graph g --rules standard --k-multi unlimited --max-iters 7 --fuse"
    invoke("run", path, *options.split(), "-q", "-o", tmp_path / "theirs.tsr")
    written = (tmp_path / "ours.tsr").read_text()
    assert written == (tmp_path / "theirs.tsr").read_text()
    assert "op fused" in written
    assert f"// made by: tensat-dl run two.tsr {options}\n" in written


def test_what_no_command_makes_says_so(model: tensat_dl.Model, tmp_path: Path) -> None:
    out = tmp_path / "out.tsr"
    loaded = tensat_dl.load(text=TEXT)
    tensat_dl.save(loaded, tensat_dl.optimize(loaded), out)
    assert made_by(out.read_text()) == "// made by: tensat-dl run -"
    assert invoke("why", out, "--from", SHARED).code == 0
    tensat_dl.save(model, tensat_dl.optimize(model, model.rules[:1]), out)
    assert made_by(out.read_text()) == "// made by: tensat-dl, from Python, with rules that no file names"
    assert "no comment records the origin" in invoke("why", out).err


def test_other_endings_are_refused(model: Any, result: tensat_dl.Result, tmp_path: Path) -> None:
    for name in ("faster.txt", "faster", "faster.tsr.bak"):
        with pytest.raises(ValueError, match=r"ends in neither \.tsr nor \.onnx"):
            tensat_dl.save(model, result, tmp_path / name)
    with pytest.raises(ValueError, match="seed is -1"):
        tensat_dl.save(model, result, tmp_path / "faster.onnx", seed=-1)
    assert list(tmp_path.iterdir()) == []


def test_wrong_answers_are_not_saved(model: Any, result: tensat_dl.Result, tmp_path: Path) -> None:
    assert result.equivalence is not None
    different = replace(
        result, equivalence=replace(result.equivalence, status="different", message="y differs")
    )
    for wrong, say in ((different, "y differs"), (replace(result, equivalence=None), "is not verified")):
        with pytest.raises(tensat_dl.Mismatch, match=say) as raised:
            tensat_dl.save(model, wrong, tmp_path / "out.tsr")
        assert raised.value.result is wrong
        copy = pickle.loads(pickle.dumps(raised.value))
        assert (type(copy), str(copy)) == (tensat_dl.Mismatch, str(raised.value))
    assert list(tmp_path.iterdir()) == []
