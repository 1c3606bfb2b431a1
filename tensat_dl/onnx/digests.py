"""Digests of models and of inputs: equal ones need not be run, compared or timed again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from tensat_dl.onnx.model_files import external_weights
from tensat_dl.ops.semantics.arrays import Array

if TYPE_CHECKING:
    from tensat_dl.onnx.importer import Imported


def digest_of_model(path: Path) -> str:
    """A digest of a model; "" if it has weights in other files, which are too large to be read once more."""
    if any(external_weights(ir.load(path))):
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_feeds(feeds: Mapping[str, Array]) -> str:
    """A digest of inputs; "" if one has elements that are objects."""
    found = hashlib.sha256()
    for name, x in sorted(feeds.items()):
        if x.dtype.hasobject:
            return ""
        found.update(f"{name} {x.dtype.str} {x.shape}\n".encode())
        found.update(x.tobytes())
    return found.hexdigest()


def digest_of_comparison(imported: Imported, seed: int, path: Path) -> str:
    """A digest of all that a comparison with a model that was read depends on: its sizes, its inputs, and the other
    model. "" if one of them has none."""
    other, given = digest_of_model(path), digest_of_feeds(imported.given or {})
    if not other or not given:
        return ""
    mix = [dims for dims, _ in imported.mix]
    asked = imported.reading, imported.dims, imported.said, mix, imported.turning
    return hashlib.sha256(f"{asked} {seed} {given} {other}".encode()).hexdigest()
