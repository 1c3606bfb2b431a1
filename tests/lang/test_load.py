"""Files that cannot be read, or are not text: one located message each, and never another exception."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from tensat_dl.core.diagnostics import Source, TsrError
from tensat_dl.lang import load
from tensat_dl.lang.load import read_source
from tensat_dl.lang.parser import parse
from tensat_dl.lang.program import load_program


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def message(path: str) -> str:
    with pytest.raises(TsrError) as caught:
        parse(read_source(path))
    return caught.value.render()


def write(name: str, data: bytes) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(data)
    return name


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_file() -> None:
    source = read_source(write("a.tsr", "// größe\n".encode()))
    assert (source.path, source.text) == ("a.tsr", "// größe\n")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b"graph g {")
    assert message("-").startswith("<stdin>:1:9: error: `{` is never closed")


def test_an_empty_file() -> None:
    assert parse(read_source(write("empty.tsr", b""))).items == ()
    assert parse(read_source(write("blank.tsr", b"\xef\xbb\xbf \r\n\t"))).items == ()


@pytest.mark.parametrize("data", [b"", b"\n\n", b"// nothing\n// but comments", b"\xef\xbb\xbf\r\n\t"])
def test_a_file_without_items_is_a_program_without_graphs(data: bytes) -> None:
    program = load_program(write("a.tsr", data))
    assert (program.graphs, program.tests, program.own_rules) == ({}, (), ())


def test_an_import_is_read_once_and_named_as_it_is_written() -> None:
    write("packs/one.tsr", b'import "two.tsr"\nrule a { relu(relu(x)) => relu(x) }\n')
    write("packs/two.tsr", b"rule b { relu(tanh(x)) => rellu(x) }\n")
    main = write("main.tsr", b'import "packs/one.tsr"\nimport "packs/two.tsr"\n')
    with pytest.raises(TsrError) as caught:
        load_program(main)
    shown = caught.value.render()
    assert shown.startswith("packs/two.tsr:1:27: error: unknown operator `rellu`")
    assert len(caught.value.diagnostics) == 1


def test_byte_order_mark_and_line_ends() -> None:
    for line_end in (b"\n", b"\r\n", b"\r"):
        text = b"\xef\xbb\xbfgraph g {" + line_end + b"  y = 3x" + line_end + b"}" + line_end
        assert read_source(write("a.tsr", text)).text == "graph g {\n  y = 3x\n}\n"
        assert message("a.tsr").splitlines()[:3] == [
            "a.tsr:2:7: error: `3x` is not a number",
            "  2 |   y = 3x",
            "    |       ^^",
        ]


def test_carriage_returns_that_reach_the_parser() -> None:
    with pytest.raises(TsrError, match="`inptu` does not start a statement"):
        parse(Source("a", "graph g {\r\n  inptu x : f32[]\r\n}\r\n"))


def test_missing_file() -> None:
    write("models/resnet.tsr", b"")
    assert message("models/resnte.tsr") == (
        "models/resnte.tsr: error: no such file\n  = hint: did you mean `models/resnet.tsr`?"
    )
    assert "did you mean `models/resnet.tsr`?" in message("models/resnet")
    assert message("models/xyzzy.tsr") == "models/xyzzy.tsr: error: no such file"
    assert message("modles/resnet.tsr").endswith("hint: there is no folder `modles` either")
    write("here.tsr", b"")
    assert message("her.tsr").endswith("did you mean `here.tsr`?")


@pytest.mark.parametrize("path", ["", "\0", "a" * 5000, "a.tsr/b.tsr", "\udcff.tsr", "x\n.tsr"])
def test_paths_that_are_none(path: str) -> None:
    write("a.tsr", b"")
    message(path).encode()


def test_directory() -> None:
    os.mkdir("models")
    assert message("models") == "models: error: is a directory\n  = hint: give a file"
    write("models/b.tsr", b"")
    assert message("models").endswith("hint: give a file in it, such as `models/b.tsr`")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_by_mode() -> None:
    os.chmod(write("secret.tsr", b""), 0)
    assert message("secret.tsr") == "secret.tsr: error: permission denied: the file cannot be read"


def test_unreadable_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> os.stat_result:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(load.os, "stat", refuse)
    assert message("secret.tsr") == "secret.tsr: error: permission denied: the file cannot be read"


def test_failing_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> os.stat_result:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(load.os, "stat", fail)
    assert message("a.tsr") == "a.tsr: error: cannot be read: input/output error"


def test_not_utf8() -> None:
    write("latin.tsr", b"\xef\xbb\xbf// gr\xc3\xbc\xc3\x9fe\r\n// caf\xe9 au lait\r\n")
    assert message("latin.tsr") == (
        "latin.tsr:2:7: error: the file is not UTF-8: byte 0xE9 at offset 21\n"
        "  2 | // caf� au lait\n"
        "    |       ^\n"
        "  = hint: save it as UTF-8"
    )
    assert "byte 0xC3 at offset 0" in message(write("cut.tsr", b"\xc3"))


def test_utf16() -> None:
    assert message(write("a.tsr", "graph".encode("utf-16"))) == (
        "a.tsr: error: the file is UTF-16 text\n  = hint: save it as UTF-8"
    )


def test_nul_bytes() -> None:
    assert message(write("a.tsr", b"graph g {\n\0\0}")).startswith(
        "a.tsr:2:1: error: the file has a NUL byte: it is not text\n  2 | ��}\n    | ^"
    )


def test_large_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_BYTES", 2**20)
    write("a.tsr", b"\n" * 2**20)
    assert read_source("a.tsr").text
    write("a.tsr", b"\n" * (2**20 + 1))
    assert message("a.tsr").startswith("a.tsr: error: the file is larger than 1 MB")
    assert read_source("a.tsr", data=True).text
    standard_input(monkeypatch, b"\n" * (2**20 + 1))
    assert message("-").startswith("<stdin>: error: the file is larger than 1 MB")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no endless file")
def test_endless_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_BYTES", 2**20)
    assert message("/dev/zero").startswith("/dev/zero: error: the file is larger than 1 MB")


def test_a_link_to_itself() -> None:
    Path("loop.tsr").symlink_to("loop.tsr")
    assert message("loop.tsr").startswith("loop.tsr: error: cannot be read: ")
    with pytest.raises(TsrError) as caught:
        load_program(write("a.tsr", b'import "./loop.tsr"\n'))
    said = caught.value.render()
    assert said.startswith("loop.tsr: error: cannot be read: ")
    assert "imported at a.tsr:1:1" in said
    with pytest.raises(TsrError, match="cannot be read"):
        load_program(write("b.tsr", b""), ["./loop.tsr"])


def test_an_import_shows_no_other_files() -> None:
    """A link's name ends in .tsr, and it is to some other file."""
    write("secret.txt", b"password = 3\n")
    Path("link.tsr").symlink_to("secret.txt")
    with pytest.raises(TsrError) as caught:
        load_program(write("a.tsr", b'import "./link.tsr"\n'))
    said = caught.value.render()
    assert said.startswith('a.tsr:1:1: error: "./link.tsr" is a link to a file that does not end in .tsr')
    assert "password" not in said
