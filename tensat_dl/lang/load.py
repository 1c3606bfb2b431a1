"""Reads source files."""

from __future__ import annotations

import sys
from pathlib import Path

from tensat_dl.lang.source import Source


def read_source(path: str) -> Source:
    """The source at ``path``, or standard input for "-"."""
    if path == "-":
        return Source("<stdin>", sys.stdin.read())
    return Source(path, Path(path).read_text(encoding="utf-8"))
