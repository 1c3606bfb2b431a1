"""Writing files so that an existing one is never half-overwritten."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def write(path: str, text: str) -> None:
    """Writes a text file atomically; "-" is standard output. Raises OSError with the old file intact."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", path)
    if target.exists() and not target.is_file():  # a device or a pipe has nothing to keep
        target.write_text(text, encoding="utf-8")
        return
    target = target.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(paths: list[str]) -> None:
    """Raises OSError now for outputs that could not be written at the end of a long run."""
    for path in paths:
        if path == "-":
            continue
        target = Path(path)
        if target.is_dir():
            raise IsADirectoryError(21, "Is a directory", path)
        folder = target.resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError(2, "No such folder to write to", path)
        if not os.access(folder, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
            raise PermissionError(13, "Permission denied", path)
