"""Disks that are small."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 1 MB in place of a folder. Skips the test where none can be made."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounts no disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, left: int) -> Path:
    """A file that leaves so many bytes free, about."""
    filler = disk / "filler"
    filler.write_bytes(bytes((1 << 20) - left))
    return filler
