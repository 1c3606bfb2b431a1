"""Without PyTorch, the error says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["torch", "onnxscript", "onnxruntime"])
def test_the_error_names_the_extra(package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; import tensat_dl.torch"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-2:]
    assert done.returncode == 1
    assert last[0].startswith("ImportError: tensat_dl.torch needs the package ")
    assert last[1] == "  = hint: pip install 'tensat-dl[torch]'"
