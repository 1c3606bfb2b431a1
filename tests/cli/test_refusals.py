"""What the command line says of a mistake, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import EXAMPLES, invoke

FUSE = EXAMPLES / "tiny_fuse_relu.tsr"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("bed.tsr", "model.onnx"):
        (tmp_path / name).write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("run", FUSE, "-o", "out.pt"),
            "out.pt ends in neither .tsr nor .onnx, the formats that graphs are written in",
        ),
        (
            ("run", FUSE, "-o", "out"),
            "out ends in neither .tsr nor .onnx, the formats that graphs are written in",
        ),
        (
            ("run", FUSE, "--threads", 3),
            "threads are for the device cpu: costs on h100 do not depend on them",
        ),
        (
            ("run", FUSE, "--device", "cpu", "--fuse"),
            "fusion is for GPUs: on the CPU ONNX Runtime runs graphs, with kernels of its own",
        ),
        (
            ("run", FUSE, "--device", "gpu"),
            "error: unknown device `gpu`: devices are a10, a100, b200, cpu, h100, h200, l4, l40s, mi300x, "
            "rtx4090, rtx5090, t4, and cuda\n"
            "  = hint: `cuda` is the GPU of this machine, whose operators --measure measures; docs/gpu.md says how "
            "to measure those of another one",
        ),
        (("show", FUSE, "--rules"), "Option '--rules' requires an argument."),
        (
            ("show", FUSE, "--rules", "linear"),
            "--rules adds rules, and a graph shows none: see --list rules",
        ),
        (
            ("run", "model.onnx", "--dim", "seq"),
            "Invalid value for '--dim': 'seq' is not NAME=SIZES, such as batch=1 or seq=1..512",
        ),
        (
            ("run", "model.onnx", "--dim", "seq=long"),
            "Invalid value for '--dim': 'seq=long': 'long' is not a size (128), a range (1..512), several sizes "
            "(32,128,512), or sizes in a range (1..512=32,128)",
        ),
        (
            ("run", "model.onnx", "--dim", "seq=512..1"),
            "Invalid value for '--dim': 'seq=512..1': the range 512..1 is empty: the smaller size comes first",
        ),
        (
            ("run", "model.onnx", "--dim", "seq=128,32"),
            "Invalid value for '--dim': 'seq=128,32': the sizes 128,32 do not ascend",
        ),
        (
            ("run", "model.onnx", "--dim", "seq=1..64=32,128"),
            "Invalid value for '--dim': 'seq=1..64=32,128': the size 128 is not in the range 1..64",
        ),
        (
            ("run", "model.onnx", "--dim", "seq=0"),
            "Invalid value for '--dim': 'seq=0': 0 is no size: sizes are from 1 to 2,147,483,647",
        ),
        (
            ("run", "model.onnx", "--dim", "seq=1..8", "--dim", "seq=4"),
            "--dim gives seq two sizes, 1..8 and 4: several are written seq=32,128, in a range seq=1..512=32,128",
        ),
        (("run", FUSE, "--buckets"), "--buckets is for ONNX models, and writes ONNX models"),
        (
            ("run", "model.onnx", "--buckets", "-o", "faster.tsr"),
            "--buckets is for ONNX models, and writes ONNX models",
        ),
        (("run", "bad.tsr"), "bad.tsr: error: no such file\n  = hint: did you mean `bed.tsr`?"),
        (("run", "net.tsr"), "net.tsr: error: no such file"),
        (("run", "bed"), "bed: error: no such file\n  = hint: did you mean `bed.tsr`?"),
        (("run", "model.tsr"), "model.tsr: error: no such file\n  = hint: did you mean `model.onnx`?"),
    ],
    ids=lambda value: " ".join(map(str, value[1:])) if isinstance(value, tuple) else "",
)
def test_refusals(command: tuple[object, ...], message: str) -> None:
    done = invoke(*command)
    said = done.err.rpartition("\n\n")[2].removeprefix("Error: ")
    assert (done.code, done.out, said) == (2, "", message + "\n")


def test_the_memory_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**options: object) -> None:
        raise MemoryError("Unable to allocate 30 GiB")

    monkeypatch.setattr("tensat_dl.cli.main.cli.main", run)
    done = invoke("run", FUSE)
    assert done.code == 3
    assert done.err.startswith("error: there is not enough memory: Unable to allocate 30 GiB\n  = hint: ")


def test_show_lists_the_rules_of_a_pack() -> None:
    assert "smul-smul" in invoke("show", FUSE, "--list", "rules", "--rules", "linear").out
    assert "smul-smul" not in invoke("show", FUSE, "--list", "rules").out


def test_devices_and_pipes_need_no_ending() -> None:
    assert invoke("run", FUSE, "-q", "-o", "/dev/null").code == 0
