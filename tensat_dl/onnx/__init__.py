"""Reads, writes and runs ONNX models. The packages for this may not be installed."""

from __future__ import annotations

from tensat_dl.core.diagnostics import Diagnostic, TsrError

#: The rules for models that come without any.
PACK = "inference"


def is_onnx(path: str) -> bool:
    return path.lower().endswith(".onnx")


def need_onnx(path: str = "") -> None:
    """Raises `TsrError` if a package for ONNX models is not installed; at the given file, if any."""
    try:
        import onnx
        import onnx_ir
        import onnxruntime
    except ImportError as e:
        hint = "pip install 'tensat-dl[onnx]'"
        message = f"ONNX models and --measure need the package {e.name or 'onnx'}, which is not installed"
        raise TsrError([Diagnostic(message, None, hint, path=path)]) from None
    del onnx, onnx_ir, onnxruntime
