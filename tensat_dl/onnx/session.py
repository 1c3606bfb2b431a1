"""ONNX Runtime sessions on the CPU, which can be run again and again without copying anything.

It imports little, since fresh processes do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime

from tensat_dl.core.words import first_line
from tensat_dl.ops.semantics.arrays import Array

_LEVELS = onnxruntime.GraphOptimizationLevel
#: What ONNX Runtime says when there is not enough memory.
_SHORT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")


class NotRunnable(Exception):
    """ONNX Runtime does not load or run a model. The message is its own, in one line."""


class OutOfMemory(NotRunnable, MemoryError):
    """ONNX Runtime does not get the memory that a model takes."""


class Layout(NamedTuple):
    """An input or output in memory: its name, its ONNX element type, and its shape, with None for sizes that are not
    known. Its elements lie one after the other."""

    name: str
    dtype: int
    shape: tuple[int | None, ...]


class Session:
    """One model, loaded, for so many ``threads``, by default as many as ONNX Runtime likes. ``optimized`` is its best
    level, else it runs as it is; ``keep`` is a file for the model as it was optimized. With ``any_size``, ONNX
    Runtime keeps no plan of memory for each combination of shapes that it has seen. Raises `NotRunnable`."""

    def __init__(
        self,
        model: bytes | Path,
        threads: int = 0,
        optimized: bool = True,
        keep: Path | None = None,
        any_size: bool = False,
    ) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = not any_size
        options.graph_optimization_level = _LEVELS.ORT_ENABLE_ALL if optimized else _LEVELS.ORT_DISABLE_ALL
        if keep is not None:
            options.optimized_model_filepath = str(keep)
        source = str(model) if isinstance(model, Path) else model
        try:
            self._session = onnxruntime.InferenceSession(source, options, ["CPUExecutionProvider"])
        except Exception as e:  # it has no common class for its errors
            raise NotRunnable(first_line(e)) from None
        self._idle: list[_Memory] = []  #: of calls of `run_on` that have ended
        #: What the model declares of each output: its name and its shape.
        self.declared = self._session.get_outputs()

    def outputs(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Runs the model once. Raises `NotRunnable`, and `OutOfMemory` if that is why."""
        try:
            return list(self._session.run(None, dict(feeds)))
        except Exception as e:
            short = isinstance(e, MemoryError) or any(words in str(e) for words in _SHORT_OF_MEMORY)
            raise (OutOfMemory if short else NotRunnable)(first_line(e)) from None

    def bound(self, feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Runs the model on these inputs, at each call. It has run by then, or `NotRunnable` is raised."""
        session, binding = self._session, self._session.io_binding()
        names = [output.name for output in self.declared]
        try:
            values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
            for name, value in values.items():
                binding.bind_ortvalue_input(name, value)
            for name in names:
                binding.bind_output(name, "cpu")
            session.run_with_iobinding(binding)
        except Exception as e:
            raise NotRunnable(first_line(e)) from None
        try:
            session.run_with_iobinding(binding)
        except Exception:
            # The outputs of the last run are written to, but not if the model is wrong about their rank.
            return lambda: session.run_with_ort_values(names, values)
        return lambda: session.run_with_iobinding(binding)

    def run_on(
        self, inputs: Sequence[tuple[Layout, int]], outputs: Sequence[tuple[Layout, int]]
    ) -> list[Any]:
        """Runs the model once on memory of the caller's, given by addresses. An output with the address 0 gets memory
        of its own and may have any shape; the arrays of such outputs. Threads may do so at once. Raises
        `NotRunnable`."""
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = _Memory(self._session.io_binding())
        try:
            found = memory.run(self._session, inputs, outputs)
        except Exception as e:
            raise NotRunnable(first_line(e)) from None
        self._idle.append(memory)
        return found


class _Memory:
    """The memory that a model was run on last. Only what is elsewhere at the next run is bound anew, since that takes
    as long as a small operator."""

    def __init__(self, binding: Any) -> None:
        self._binding = binding
        self._inputs: list[tuple[Layout, int] | None] = []
        self._outputs: list[tuple[Layout, int] | None] = []

    def run(
        self, session: Any, inputs: Sequence[tuple[Layout, int]], outputs: Sequence[tuple[Layout, int]]
    ) -> list[Any]:
        binding = self._binding
        if not self._outputs:
            self._inputs, self._outputs = [None] * len(inputs), [None] * len(outputs)
        for i, place in enumerate(inputs):
            if place != self._inputs[i]:
                x, address = self._inputs[i] = place
                binding.bind_input(x.name, "cpu", 0, x.dtype, x.shape, address)
        left = []
        for i, place in enumerate(outputs):
            x, address = place
            if not address:  # memory of an earlier run is the caller's by now
                left.append(i)
                binding.bind_output(x.name, "cpu")
            elif place != self._outputs[i]:
                binding.bind_output(x.name, "cpu", 0, x.dtype, x.shape, address)
            self._outputs[i] = place
        session.run_with_iobinding(binding)
        if not left:
            return []
        found = binding.get_outputs()
        return [found[i].numpy() for i in left]
