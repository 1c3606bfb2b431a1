"""Files: external data, open dimensions, and what can be wrong with them and with outputs. Bad input is a message
with exit code 2, and nothing is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_node

import tensat_dl
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.onnx import need_onnx
from tests.cli.processes import linux
from tests.cli.running import EXAMPLES, Done, invoke

from .models import model, random, read, rewriting, saved, tensor, value
from .refusing import product, refused

pytestmark = pytest.mark.sampled(5)


def external(folder: Path) -> Path:
    """A model whose weights stand in a file of their own."""
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save(product(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_goes_with_the_model(tmp_path: Path) -> None:
    path, out = external(tmp_path / "in"), tmp_path / "out" / "new.onnx"
    out.parent.mkdir()
    done = invoke("run", path, "-o", out)
    assert (done.code, done.err) == (0, "")
    assert "the same model" in done.out
    assert sorted(p.name for p in out.parent.iterdir()) == ["new.onnx", "new.onnx.data"]
    assert out.stat().st_size < 1000
    before, after = (onnx.load(p).graph.initializer[0] for p in (path, out))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(before), onnx.numpy_helper.to_array(after))


def test_external_data_of_an_unchanged_model_stays_where_it_is(tmp_path: Path) -> None:
    path = external(tmp_path / "in")
    kept = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    done = invoke("run", path, "-o", path.with_name("new.onnx"), "--no-measure", "--rules", "identity")
    assert (done.code, done.err) == (0, "")
    assert "the same model" in done.out
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == {**kept, "new.onnx": kept[path.name]}


def shared_and_merged() -> Any:
    """x a + x b, whose weights are folded, and tanh(x) c, whose weight stays: where it stands in the data moves."""
    nodes = [
        make_node("MatMul", ["x", "a"], ["xa"]),
        make_node("MatMul", ["x", "b"], ["xb"]),
        make_node("Add", ["xa", "xb"], ["y"]),
        make_node("Tanh", ["x"], ["t"]),
        make_node("MatMul", ["t", "c"], ["z"]),
    ]
    weights = [random(name, 64, 32) for name in "abc"]
    return model(nodes, [value("x", 4, 64)], [value("y", 4, 32), value("z", 4, 32)], weights)


@pytest.mark.parametrize("link", [False, True])
def test_no_output_takes_the_place_of_external_data(link: bool, tmp_path: Path) -> None:
    """A model that was renamed still has its weights in a file of the old name, or in what that leads to."""
    path, out, data = tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "b.onnx.data"
    onnx.save(shared_and_merged(), path, save_as_external_data=True, location=data.name, size_threshold=0)
    if link:
        data.symlink_to(data.rename(tmp_path / "weights.bin"))
    kept = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for options, say in (
        (("-o", out), "its weights would go to b.onnx.data, which holds the weights of"),
        (("-o", tmp_path / "o.tsr", "--json", data), "b.onnx.data is an input"),
        (("-o", path), "a.onnx is an input"),
    ):
        done = invoke("run", path, *options, "--device", "h100", "-q")
        assert (done.code, say in done.err, done.err.count("rror:")) == (2, True, 1), done
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == kept
    loaded = tensat_dl.load(str(path))
    result = tensat_dl.optimize(loaded, device="h100")
    with pytest.raises(TsrError, match="choose another name"):
        tensat_dl.save(loaded, result, str(out))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == kept


def test_an_output_that_is_another_name_of_the_input(tmp_path: Path) -> None:
    """A hard link is replaced, and the input stays; through a symbolic link the input would be lost."""
    path, hard, soft = tmp_path / "model.onnx", tmp_path / "hard.onnx", tmp_path / "soft.onnx"
    onnx.save(shared_and_merged(), path)
    kept = path.read_bytes()
    hard.hardlink_to(path)
    soft.symlink_to(path)
    done = invoke("run", path, "-o", soft, "--device", "h100")
    assert (done.code, "is an input" in done.err) == (2, True)
    assert invoke("run", path, "-o", hard, "--device", "h100", "-q") == Done(0, "", "")
    assert (path.read_bytes() == kept, hard.read_bytes() == kept) == (True, False)


@pytest.mark.parametrize("rules", ["identity", "inference"])
def test_external_data_of_constants(rules: str, tmp_path: Path) -> None:
    """Constants that are nodes can have theirs in a file, too."""
    constant = make_node("Constant", [], ["w"], value=random("w", 64, 32))
    nodes = [constant, *product().graph.node]
    proto = model(nodes, [value("x", 4, 64)], [value("y", 4, 32)], [])
    path, out = tmp_path / "in" / "model.onnx", tmp_path / "out" / "new.onnx"
    for folder in (path.parent, out.parent):
        folder.mkdir()
    options: Any = {"location": "w.bin", "size_threshold": 0, "convert_attribute": True}
    onnx.save(proto, path, save_as_external_data=True, **options)
    done = invoke("run", path, "-o", out, "--device", "h100", "--rules", rules, "-q")
    assert done == Done(0, "", "")
    feeds = {"x": np.ones((4, 64), np.float32)}
    before, after = (onnxruntime.InferenceSession(str(p)).run(None, feeds)[0] for p in (path, out))
    np.testing.assert_array_equal(before, after)
    (path.parent / "w.bin").unlink()
    refused(path, say="w.bin, which is not there")


def test_external_data_that_is_not_there(tmp_path: Path) -> None:
    path = external(tmp_path / "in")
    data = path.parent / "weights.bin"
    data.write_bytes(data.read_bytes()[:100])
    refused(path, say="beyond the end of weights.bin", hint="truncated")
    data.unlink()
    refused(path, say="weights.bin, which is not there")


@pytest.mark.parametrize(
    ("entry", "text", "say"),
    [
        ("location", "a\0b", "the weight w is in a�b, which is not there"),
        ("length", "12", "the weight w has 12 bytes in weights.bin, not 8,192"),
    ],
)
def test_external_data_that_can_not_be(entry: str, text: str, say: str, tmp_path: Path) -> None:
    path = external(tmp_path / "in")
    proto = onnx.load(path, load_external_data=False)
    (found,) = (e for e in proto.graph.initializer[0].external_data if e.key == entry)
    found.value = text
    path.write_bytes(proto.SerializeToString())
    refused(path, say=say)


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_external_data_that_is_a_link_out_of_the_folder(link: str, tmp_path: Path) -> None:
    path = external(tmp_path / "in")
    data = path.with_name("weights.bin")
    getattr(data, link)(data.rename(tmp_path / "weights.bin"))
    refused(path, say="weights.bin is a link", hint="cp -L")


def test_a_large_model_gets_a_file_for_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is only pretended."""
    monkeypatch.setattr("tensat_dl.onnx.model_files.MAX_BYTES", 1000)
    out = tmp_path / "out" / "new.onnx"
    out.parent.mkdir()
    assert invoke("run", saved(tmp_path, product()), "-o", out, "-q").code == 0
    assert (out.parent / "new.onnx.data").stat().st_size == 64 * 32 * 4


@linux
@pytest.mark.parametrize("data", [False, True])
def test_a_disk_with_no_room_for_the_answer(data: bool, tmp_path: Path) -> None:
    """Nothing of it stays, with the weights in the file or beside it."""
    path = external(tmp_path / "in") if data else saved(tmp_path, product())
    out = tmp_path / "out"
    out.mkdir()
    (out / "new.onnx").write_bytes(b"as it was")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from tensat_dl.cli.main import main; sys.argv[0] = 'tensat-dl'; main()"
    )
    command = [
        sys.executable,
        "-B",
        "-c",
        script,
        "run",
        str(path),
        "-o",
        str(out / "new.onnx"),
        "--no-measure",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert [p.name for p in out.iterdir()] == ["new.onnx"]
    assert (out / "new.onnx").read_bytes() == b"as it was"


@pytest.mark.parametrize(
    ("options", "say", "hint"),
    [
        (("--dim", "row=3"), "no dimension `row`", "did you mean `rows`?"),
        (("--dim", "rows"), "'rows' is not NAME=SIZES, such as batch=1 or seq=1..512", ""),
        (("--dim", "=3"), "'=3' is not NAME=SIZES", ""),
        (("--dim", "rows="), "'rows=': '' is not a size (128), a range", ""),
        (("--dim", "rows=0"), "'rows=0': 0 is no size: sizes are from 1 to 2,147,483,647", ""),
        (("--dim", "rows=2147483648"), "2147483648 is no size", ""),
        (("--dim", "rows=-3"), "'-3' is not a size", ""),
        (("--dim", "rows=2.5"), "'2.5' is not a size", ""),
        (("--dim", "rows=many"), "'many' is not a size", ""),
        (("--dim", "rows=1.."), "'1..' is not a size", ""),
        (("--dim", "rows=1..4="), "'1..4=' is not a size", ""),
        (("--dim", "rows=0..4"), "0 is no size", ""),
        (("--dim", "rows=4..1"), "the range 4..1 is empty: the smaller size comes first", ""),
        (("--dim", "rows=4,2"), "the sizes 4,2 do not ascend", ""),
        (("--dim", "rows=2,2"), "the size 2 is there twice", ""),
        (("--dim", "rows=2,,4"), "'2,,4' is not a size", ""),
        (("--dim", "rows=1..8=4,16"), "the size 16 is not in the range 1..8", ""),
        (("--dim", "rows=2", "--dim", "rows=4"), "--dim gives rows two sizes, 2 and 4", "rows=1..512=32,128"),
    ],
)
def test_sizes_that_cannot_be(options: tuple[str, ...], say: str, hint: str, tmp_path: Path) -> None:
    done = invoke("show", saved(tmp_path, product("rows")), *options)
    assert done.code == 2
    assert say in done.err
    assert hint in done.err


def test_one_size_for_a_dimension(tmp_path: Path) -> None:
    path = saved(tmp_path, product("rows"))
    assert "two sizes" in invoke("show", path, "--dim", "rows=3", "--dim", "rows=4").err
    assert "x : f32[3, 64]" in invoke("show", path, "--dim", "rows=3", "--dim", "rows=3").out
    assert "open dimensions are rows" in invoke("show", path, "--dim", "x=3").err
    assert "all its dimensions are known" in invoke("show", saved(tmp_path, product()), "--dim", "x=3").err


@pytest.mark.parametrize("nameless", [None, "?", ""])
def test_dimensions_without_a_name_are_called_by_their_place(nameless: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, product(nameless))
    assert "open dimensions are x.0" in invoke("show", path, "--dim", "x=3").err
    assert "x : f32[3, 64]" in invoke("show", path, "--dim", "x.0=3").out


def test_options_of_the_other_kind_of_file(tmp_path: Path) -> None:
    for command in ("run", "show"):
        done = invoke(command, EXAMPLES / "tiny_fuse_relu.tsr", "--dim", "x=3")
        assert (done.code, "graph `tiny_fuse_relu` has no size `x`" in done.err) == (2, True)
    done = invoke("show", saved(tmp_path, product()), "--graph", "g")
    assert (done.code, "an ONNX model has one" in done.err) == (2, True)


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    path = saved(tmp_path, product())
    done = invoke("run", path, "-o", tmp_path / "missing" / "new.onnx")
    assert (done.code, "no such folder" in done.err) == (2, True)
    done = invoke("run", path, "-o", path)
    assert (done.code, "is an input" in done.err) == (2, True)


def test_an_existing_file_stays_if_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = saved(tmp_path, product()), tmp_path / "new.onnx"
    out.write_text("old")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    # The answer is the model itself or another one: costs are measured.
    monkeypatch.setattr("shutil.copyfile", full)
    monkeypatch.setattr("tensat_dl.onnx.model_files.save", full)
    done = invoke("run", path, "-o", out, "-q")
    assert done.code == 2
    assert done.err == f"error: {out}: no space left on device\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "new.onnx"]
    assert out.read_text() == "old"


def test_without_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base installation says what to install."""
    path = saved(tmp_path, product())
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    refused(path, say="onnx_ir, which is not installed", hint="pip install 'tensat-dl[onnx]'")
    done: Done = invoke("run", EXAMPLES / "tiny_fuse_relu.tsr", "-o", tmp_path / "new.onnx", "-q")
    assert (done.code, "pip install" in done.err) == (2, True)


class Broken:
    """Finds a package whose library can't be loaded, for this reason."""

    def __init__(self, package: str, reason: BaseException | None) -> None:
        self.package = package
        self.reason = reason

    def find_spec(self, name: str, *_: object) -> None:
        if name == self.package:
            raise ImportError("libfoo.so: cannot open shared object file", name=name) from self.reason


def test_a_package_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while its library is loaded looks the same to Python."""
    monkeypatch.delitem(sys.modules, "onnx_ir", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [Broken("onnx_ir", None), *sys.meta_path])
        with pytest.raises(TsrError, match=r"onnx_ir, which cannot be imported: libfoo.so: cannot open"):
            need_onnx()
    monkeypatch.setattr(sys, "meta_path", [Broken("onnx_ir", KeyboardInterrupt()), *sys.meta_path])
    with pytest.raises(KeyboardInterrupt):
        need_onnx()


def test_reshapes_that_are_written_anew_fit_other_sizes(tmp_path: Path) -> None:
    """Heads of an attention: the batch and the length stand at other places in front and behind."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["m"]),
        make_node("Add", ["m", "b"], ["a"]),
        make_node("Reshape", ["a", "heads"], ["h"]),
        make_node("Transpose", ["h"], ["t"], perm=[2, 0, 3, 1, 4]),
        make_node("Gather", ["t", "zero"], ["q"], axis=0),
        make_node("Slice", ["t", "one", "two", "axis"], ["s"]),
        make_node("Squeeze", ["s", "axis"], ["k"]),
        make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        make_node("MatMul", ["q", "kt"], ["y"]),
    ]
    weights = [random("w", 8, 16), random("b", 16), tensor("heads", [0, 0, 2, 4, 2], np.int64)]
    weights += [tensor("zero", 0, np.int64)]
    weights += [tensor(name, [i], np.int64) for name, i in (("axis", 0), ("one", 1), ("two", 2))]
    inputs, outputs = [value("x", "batch", "time", 8)], [value("y", "batch", 4, "time", "time")]
    imported = read(tmp_path, model(nodes, inputs, outputs, weights), {"batch": 1, "time": 5})
    assert not imported.opaque
    assert rewriting(tmp_path, imported).status == "agrees"


def test_nodes_in_any_order(tmp_path: Path) -> None:
    """As ONNX Runtime's conversion to float16 leaves them; ONNX Runtime sorts them."""
    nodes = [
        make_node(op, [x], [y]) for op, x, y in (("Relu", "b", "y"), ("Relu", "a", "b"), ("Exp", "x", "a"))
    ]
    path = saved(tmp_path, model(nodes, [value("x", 3)], [value("y", 3)]))
    out = tmp_path / "out.onnx"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert "Relu" not in [n.op_type for n in onnx.load(out).graph.node]
    x = np.random.default_rng(0).standard_normal(3, np.float32)
    (before,), (after,) = (onnxruntime.InferenceSession(str(p)).run(None, {"x": x}) for p in (path, out))
    np.testing.assert_array_equal(after, before)


def test_two_outputs_of_one_name(tmp_path: Path) -> None:
    """As PyTorch's older exporter writes a module that returns a tensor twice."""
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Relu", ["a"], ["y"])]
    path = saved(tmp_path, model(nodes, [value("x", 3, 4)], [value("y", 3, 4), value("y", 3, 4)]))
    out = tmp_path / "out.onnx"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert [o.name for o in onnx.load(out).graph.output] == ["y", "y"]
    assert sum(n.op_type == "Relu" for n in onnx.load(out).graph.node) == 1
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    for y in onnxruntime.InferenceSession(str(out)).run(None, {"x": x}):
        np.testing.assert_array_equal(y, np.maximum(x, 0))
