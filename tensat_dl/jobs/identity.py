"""What answers depend on beside their questions: the code, and the Python and the libraries that run it."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from functools import cache

from tensat_dl.installed import version_of
from tensat_dl.jobs.package import code_digest, package_version

#: Answers depend on the versions of these packages.
_LIBRARIES = ("egglog", "lark", "pyscipopt", "numpy", "onnx", "onnx-ir", "onnxruntime", "z3-solver")


@cache
def identity() -> str:
    """The version of all that answers depend on, in 12 characters, and that of tensat-dl."""
    found = json.dumps([code_digest(), environment()])
    return f"{package_version()} {hashlib.sha256(found.encode()).hexdigest()[:12]}"


@cache
def environment() -> Mapping[str, str]:
    """The processor's architecture and the versions of Python and of the libraries here, by what they are of."""
    return {
        "Python": ".".join(map(str, sys.version_info[:2])),
        "architecture": platform.machine(),
        **{name: version_of(name) or "none" for name in _LIBRARIES},
    }


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What two environments differ in, as in "numpy 2.4.0 and here 2.4.6"."""
    return ", ".join(
        f"{name} {there.get(name)} and here {here.get(name)}"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    )
