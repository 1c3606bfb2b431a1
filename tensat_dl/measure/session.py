"""ONNX Runtime sessions on the CPU that can be run again and again without copying anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime

from tensat_dl.measure.timing import Run
from tensat_dl.ops.semantics.types import Array

_LEVELS = onnxruntime.GraphOptimizationLevel


class NotRunnable(Exception):
    """ONNX Runtime does not load or run a model. The message is its own, in one line."""


class Session:
    """One model, loaded. ``optimized`` is ONNX Runtime's best level, else the model runs as it is; ``keep`` is a file
    for the model as it was optimized. Raises `NotRunnable`."""

    def __init__(
        self, model: bytes | Path, threads: int, optimized: bool = True, keep: Path | None = None
    ) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = _LEVELS.ORT_ENABLE_ALL if optimized else _LEVELS.ORT_DISABLE_ALL
        if keep is not None:
            options.optimized_model_filepath = str(keep)
        source = str(model) if isinstance(model, Path) else model
        try:
            self._session = onnxruntime.InferenceSession(source, options, ["CPUExecutionProvider"])
        except Exception as e:  # it has no common class for its errors
            raise NotRunnable(_line(e)) from None

    def outputs(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Runs the model once. Raises `NotRunnable`."""
        try:
            return list(self._session.run(None, dict(feeds)))
        except Exception as e:
            raise NotRunnable(_line(e)) from None

    def bound(self, feeds: Mapping[str, Array]) -> Run:
        """Runs the model on these inputs, at each call. It has run by then, or `NotRunnable` is raised."""
        session, binding = self._session, self._session.io_binding()
        names = [output.name for output in session.get_outputs()]
        try:
            values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
            for name, value in values.items():
                binding.bind_ortvalue_input(name, value)
            for name in names:
                binding.bind_output(name, "cpu")
            session.run_with_iobinding(binding)
        except Exception as e:
            raise NotRunnable(_line(e)) from None
        try:
            session.run_with_iobinding(binding)
        except Exception:
            # The outputs of the last run are written to, but not if the model is wrong about their rank.
            return lambda: session.run_with_ort_values(names, values)
        return lambda: session.run_with_iobinding(binding)


def _line(e: Exception) -> str:
    """The first line of a message that says something."""
    return next((line.strip()[:300] for line in str(e).splitlines() if line.strip()), type(e).__name__)
