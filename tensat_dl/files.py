"""Writing files so that an existing one is never half-overwritten."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write(path: str, text: str) -> None:
    """Writes a text file atomically; "-" is standard output. Raises OSError with the old file intact."""
    if path == "-":
        with _named("standard output"):
            sys.stdout.flush()  # what was printed comes first
            data = memoryview(text.encode("utf-8"))  # in any encoding of the terminal
            while data:  # without a buffer (PYTHONUNBUFFERED) it may be written in part: the reader leaves
                data = data[sys.stdout.buffer.write(data) or 0 :]
            sys.stdout.buffer.flush()
        return
    with _named(path):
        target = Path(path)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        if target.exists() and not target.is_file():  # a device or a pipe has nothing to keep
            target.write_text(text, encoding="utf-8")
        else:
            write_bytes(real_path(path), text.encode("utf-8"))


def write_bytes(target: Path, data: bytes) -> None:
    """Writes a file that is no link and no device atomically. Raises OSError with the old file intact."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".tensat-dl-")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):  # Ctrl-C after it was renamed
            os.unlink(temporary)
        raise


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors name the path that the user gave, not a temporary file or nothing."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as e:
        raise OSError(e.errno, e.strerror or str(e), path) from None


@contextmanager
def native_output_elsewhere() -> Iterator[None]:
    """The output that libraries print (SCIP does on Ctrl-C) goes to standard error meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def check_writable(paths: Iterable[str]) -> None:
    """Raises OSError now for outputs that could not be written at the end of a long run."""
    for path in paths:
        if path == "-":
            continue
        with _named(path or "an output"):
            _check(path)


def _check(path: str) -> None:
    if not path:
        raise FileNotFoundError(errno.ENOENT, "The name of the file is empty")
    if "\0" in path:
        raise OSError(errno.EINVAL, "The name of the file has a NUL character")
    target = Path(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        target.stat()  # raises OSError for a symbolic link to itself
    if target.is_dir() or path.endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "Permission denied")
    if target.exists() and not target.is_file():  # a device or a pipe is written as it is
        return
    folder = real_path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder to write to")
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "Permission denied")
    try:
        with tempfile.TemporaryFile(dir=folder):  # root may write everywhere, but /proc takes no files
            pass
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "No file can be made there") from None


def same_file(a: str, b: str) -> bool:
    """Whether writing one would overwrite the other. Devices and pipes can be written many times."""
    if "-" in (a, b):
        return a == b
    first, second = real_path(a), real_path(b)
    return first == second and (first.is_file() or not first.exists())


def real_path(path: str | Path) -> Path:
    """The absolute path without symbolic links. A link to itself stays (before Python 3.13, `Path.resolve` raises
    RuntimeError for it)."""
    return Path(os.path.realpath(path))
