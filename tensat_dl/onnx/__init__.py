"""Reads, writes and runs ONNX models. The packages for this may not be installed."""

from __future__ import annotations

from tensat_dl.core.diagnostics import Diagnostic, TsrError

#: The rules for models that come without any.
PACK = "inference"


def is_onnx(path: str) -> bool:
    return path.lower().endswith(".onnx")


def need_onnx(path: str = "") -> None:
    """Raises `TsrError` if a package for ONNX models is not installed or broken; at the given file, if any."""
    try:
        import onnx
        import onnx_ir
        import onnxruntime
    except ImportError as e:
        if isinstance(e.__cause__ or e.__context__, KeyboardInterrupt):  # Ctrl-C while a library was loaded
            raise KeyboardInterrupt from None
        hint = "pip install 'tensat-dl[onnx]'"
        missing = isinstance(e, ModuleNotFoundError)
        why = "which is not installed" if missing else f"which cannot be imported: {e}"
        message = f"ONNX models and --measure need the package {e.name or 'onnx'}, {why}"
        raise TsrError([Diagnostic(message, None, hint, path=path)]) from None
    del onnx, onnx_ir, onnxruntime
