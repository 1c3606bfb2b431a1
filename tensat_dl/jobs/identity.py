"""What answers depend on beside their questions: the code and the libraries."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from tensat_dl.kept import code_digest, digest_of
from tensat_dl.resources import grammar, rules

#: Answers depend on the versions of these packages.
_LIBRARIES = ("egglog", "pyscipopt", "numpy", "onnx", "onnx-ir", "onnxruntime", "z3-solver")


@cache
def identity() -> str:
    """The version of all that answers depend on, in 12 characters, and that of tensat-dl."""
    data = [*sorted(rules().glob("*.tsr")), *sorted(grammar().parent.glob("*.lark"))]
    found = [code_digest(""), digest_of(data), *(f"{name} {_version(name)}" for name in _LIBRARIES)]
    return f"{_version('tensat-dl')} {hashlib.sha256(' '.join(found).encode()).hexdigest()[:12]}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
