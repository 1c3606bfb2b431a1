"""Reads files as source text, and reports files that can't be read."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import BinaryIO

from tensat_dl.core.diagnostics import Diagnostic, Source, Span, TsrError, error
from tensat_dl.core.words import nearest

#: A larger file is refused: it is data, not something that was written in this language.
MAX_BYTES = 64 * 1024 * 1024
#: A larger file of data is refused: what is made of it would not fit in the memory of most machines.
MAX_DATA = 1024 * 1024 * 1024
STANDARD_INPUT = "<stdin>"


def read_source(path: str, shown: str = "", data: bool = False) -> Source:
    """The text of a file, or of standard input for ``-``. Raises `TsrError` if there is none.

    Messages call it ``shown``, or by its path if that is empty. A file of ``data`` may be larger than one that is
    written by hand.

    A byte order mark is dropped, and every style of line end becomes ``\\n``.
    """
    if path == "-":
        return _source(STANDARD_INPUT, sys.stdin.buffer, data)
    name = _shown(shown or path)
    with readable(path, name), open(path, "rb") as file:
        return _source(name, file, data)


def text_source(name: str, text: str) -> Source:
    """A text that was read already, which messages call ``name``, as from `read_source`. Raises `TsrError`."""
    return _source(name, BytesIO(text.encode("utf-8", "surrogatepass")), False)


@contextmanager
def readable(path: str, shown: str = "") -> Iterator[None]:
    """Turns the system's error about a file into a `TsrError`."""
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


def _source(name: str, file: BinaryIO, is_data: bool) -> Source:
    most = MAX_DATA if is_data else MAX_BYTES
    # Whoever asks for so many bytes gets memory for all of them.
    data = file.read(min(_size(file) or most, most) + 1)
    if len(data) > most:
        raise _unreadable(
            name,
            f"the file is larger than {most // 2**20} MB",
            "" if is_data else "is it really a .tsr file?",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _unreadable(name, "the file is UTF-16 text", "save it as UTF-8")
    body = data.removeprefix(b"\xef\xbb\xbf")
    try:
        source = Source(name, _lines(body.decode("utf-8")))
    except UnicodeDecodeError as e:
        source = Source(name, _lines(body.decode("utf-8", "replace")))
        at = len(_lines(body[: e.start].decode("utf-8")))
        offset = len(data) - len(body) + e.start
        message = f"the file is not UTF-8: byte 0x{data[offset]:02X} at offset {offset:,}"
        raise error(Span(source, at, at + 1), message, "save it as UTF-8") from None
    nul = source.text.find("\0")
    if nul >= 0:
        raise error(Span(source, nul, nul + 1), "the file has a NUL byte: it is not text")
    return source


def _size(file: BinaryIO) -> int:
    """Bytes of a file, 0 where that is not known."""
    with suppress(OSError):  # it is in memory
        return os.fstat(file.fileno()).st_size
    return 0


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _similar_file(path: str) -> str:
    """``did you mean ...?`` over the files of the folder where the path would be."""
    folder, base = os.path.split(path)
    try:
        names = sorted(n for n in os.listdir(folder or ".") if os.path.isfile(os.path.join(folder, n)))
    except (OSError, ValueError):
        return f"there is no folder `{_shown(folder)}` either" if folder else ""
    stem, ending = os.path.splitext(base)
    # Endings are compared by themselves: any two short names with one ending would be near.
    same = [os.path.splitext(n)[0] for n in names if os.path.splitext(n)[1] == ending]
    others = (n for n in (f"{base}.tsr", f"{stem}.tsr", f"{stem}.onnx") if n in names)
    near = nearest(stem, same)
    found = near + ending if near else next(others, "")
    return f"did you mean `{_shown(os.path.join(folder, found))}`?" if found else ""


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
