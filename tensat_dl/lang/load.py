"""Files to source text. Whatever is wrong with a file before its first word is read is reported from here."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean, error
from tensat_dl.core.source import Source, Span

#: A larger file is refused unread: it is data, not something that was written in this language.
MAX_BYTES = 64 * 1024 * 1024
STANDARD_INPUT = "<stdin>"


def read_source(path: str, shown: str = "") -> Source:
    """The text of a file, or of standard input for ``-``. Raises `TsrError` if there is none.

    Messages call it ``shown``, or by its path if that is empty.

    A byte order mark is dropped, and every style of line end becomes ``\\n``.
    """
    name = STANDARD_INPUT if path == "-" else _shown(shown or path)
    return _decode(name, _read(path, name))


def _read(path: str, name: str) -> bytes:
    if path == "-":
        return _bounded(sys.stdin.buffer, name)
    with readable(path, name), open(path, "rb") as file:
        return _bounded(file, name)


@contextmanager
def readable(path: str, shown: str = "") -> Iterator[None]:
    """What the system says of a file that can't be read is raised as a `TsrError`."""
    name = shown or _shown(path)
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise _unreadable(name, "is a directory", _a_file_in(path, name))
        yield
    except FileNotFoundError:
        raise _unreadable(name, "no such file", _similar_file(path)) from None
    except PermissionError:
        raise _unreadable(name, "permission denied: the file cannot be read") from None
    except (OSError, ValueError) as e:  # ValueError: a path with a NUL character
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise _unreadable(name, f"cannot be read: {reason[:1].lower()}{reason[1:]}") from None


def _bounded(file: BinaryIO, name: str) -> bytes:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _unreadable(
            name, f"the file is larger than {MAX_BYTES // 2**20} MB", "is it really a .tsr file?"
        )
    return data


def _decode(name: str, data: bytes) -> Source:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _unreadable(name, "the file is UTF-16 text", "save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _not_utf8(name, data) from None
    source = Source(name, _lines(text))
    nul = source.text.find("\0")
    if nul >= 0:
        raise error(Span(source, nul, nul + 1), "the file has a NUL byte: it is not text")
    return source


def _not_utf8(name: str, data: bytes) -> TsrError:
    text = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as e:
        source = Source(name, _lines(text.decode("utf-8", "replace")))
        at = len(_lines(text[: e.start].decode("utf-8")))
        offset = len(data) - len(text) + e.start
        message = f"the file is not UTF-8: byte 0x{data[offset]:02X} at offset {offset:,}"
        return error(Span(source, at, at + 1), message, "save it as UTF-8")
    raise AssertionError("the text was UTF-8 after all")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _similar_file(path: str) -> str:
    """``did you mean ...?`` over the files of the folder where the path would be."""
    folder, base = os.path.split(path)
    try:
        names = sorted(n for n in os.listdir(folder or ".") if os.path.isfile(os.path.join(folder, n)))
    except (OSError, ValueError):
        return f"there is no folder `{_shown(folder)}` either" if folder else ""
    if base + ".tsr" in names:
        return f"did you mean `{_shown(os.path.join(folder, base))}.tsr`?"
    near = did_you_mean(base, names)
    prefix = "did you mean `"
    return prefix + os.path.join(_shown(folder), "") + near.removeprefix(prefix) if near and folder else near


def _a_file_in(path: str, name: str) -> str:
    try:
        files = sorted(n for n in os.listdir(path) if n.endswith(".tsr"))
    except OSError:
        files = []
    return f"give a file in it, such as `{os.path.join(name, _shown(files[0]))}`" if files else "give a file"


def _unreadable(name: str, message: str, hint: str = "") -> TsrError:
    return TsrError([Diagnostic(message, None, hint, path=name)])


def _shown(path: str) -> str:
    """A path as text that any terminal can be sent."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
