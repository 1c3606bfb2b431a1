"""Comparing a text with the one in a file, or writing that file anew (see `test_bad_input`)."""

from __future__ import annotations

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Asserts that a file holds the text and a line end; with UPDATE_GOLDEN set, makes it so."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8")
