"""The module that `tensat_dl.torch.optimize` returns."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, NoReturn

import torch
from torch.autograd import forward_ad

from tensat_dl.core.words import plural
from tensat_dl.cost.device import this_machine
from tensat_dl.files import write
from tensat_dl.measure.statistics import Latency
from tensat_dl.onnx.model_files import commit, staged
from tensat_dl.report import facts
from tensat_dl.run.model import path_of
from tensat_dl.torch.calls import OtherCall
from tensat_dl.torch.capture import is_users, wait_for_exports
from tensat_dl.torch.prepare import LABELS, Asked, Contestant, prepare


class FallbackWarning(UserWarning):
    """The module itself was called, or will be. The message says why."""


class NothingOptimized(Exception):
    """There is no optimized graph to save or to report on. The message says why."""


class Optimized(torch.nn.Module):  # type: ignore[misc]
    """A module that is called as ``module`` is, with the same outputs.

    Calls for which it was not made go to ``module`` itself, with one `FallbackWarning` for each reason: calls with
    other shapes, types or constants, calls that record gradients, calls under autocast, and calls after the module's
    weights have changed, until `refresh`.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.module = asked.module
        self._asked = asked
        self._said: set[str] = set()
        self._prepared = prepare(asked)
        if self._prepared.declined:
            self._say(self._prepared.declined)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        run, reason = self._prepared.run, ""
        if run is not None and (reason := self.unfit):
            wait_for_exports()  # a module that `refresh` in another thread traces seems to be another one
            run, reason = self._prepared.run, self.unfit
        if run is not None and not reason:
            try:
                return run(args, kwargs)
            except OtherCall as e:
                reason = str(e)
        if run is not None:
            self._say(reason)
        wait_for_exports()
        return self.module(*args, **kwargs)

    @property
    def called(self) -> Contestant:
        """What is called, since it was the fastest: ``module``, ``exported`` or ``optimized``."""
        return self._prepared.called

    @property
    def latencies(self) -> Mapping[Contestant, Latency]:
        """The measured latencies of the module and of those models that compute the same."""
        return self._prepared.latencies

    @property
    def declined(self) -> str:
        """Why nothing but the module could be tried; empty if models were."""
        return self._prepared.declined

    @property
    def stale(self) -> str:
        """How the module has changed since it was optimized; empty if it has not."""
        return self._prepared.weights.changed()

    @property
    def unfit(self) -> str:
        """Why no call can be answered by a model now, whatever its inputs; empty if calls can be."""
        if not self._asked.frozen and (stale := self.stale):
            return f"{stale}; refresh() makes it anew"
        if torch.is_grad_enabled() and self._prepared.weights.wants_gradients():
            return "weights require gradients: call it under torch.no_grad() or torch.inference_mode()"
        # The first question takes less time than the second, whose argument PyTorch has to read.
        if torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        return _transformed()

    def refresh(self) -> None:
        """Makes it anew for the weights that the module has now, without another search. What is the fastest is
        measured again."""
        self._prepared = prepare(self._asked, self._prepared.answer)
        self._said.clear()
        if self._prepared.declined:
            self._say(self._prepared.declined)

    def summary(self) -> str:
        """What is called and why: the latencies of the module, of ONNX Runtime with the graph as exported and with
        the optimized graph, measured on this machine; how outputs compare; what the search found."""
        return "\n".join(f"{label:<14}{text}" for label, text in self._rows())

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the ONNX model that is called; if the module itself is called, the faster of its models. Of buckets
        each is written: to ``faster.1-48.onnx`` beside ``faster.onnx``, and so on. Raises `NothingOptimized` if there
        is none, or if the weights have changed since; OSError."""
        p = self._prepared
        if reason := p.declined or self.stale:
            hint = "" if p.declined else "; call refresh() first"
            raise NothingOptimized(f"{fspath(path)} is not written: {reason}{hint}")
        if not p.models:
            raise NothingOptimized(f"{fspath(path)} is not written: {'; '.join(p.notes)}")
        best = min(p.models, key=lambda name: p.latencies[name].median_ms)
        for text, model in p.models[best].items():
            output = path_of(fspath(path), text) if text else fspath(path)
            with staged(model, output) as file:
                commit(file, output)

    def report(self, path: str | PathLike[str]) -> None:
        """Writes the search as one HTML page: both graphs, the rules that were applied, and the steps from one graph
        to the other, if it is ``explained``. Raises `NothingOptimized`, OSError."""
        from tensat_dl.report.html import result_to_html

        found = self._prepared.answer
        if found is None:
            reason = self._prepared.declined or "; ".join(self._prepared.notes)
            raise NothingOptimized(f"there is no search to report on: {reason}")
        write(fspath(path), result_to_html(found.result, found.model))

    def __reduce__(self) -> NoReturn:
        """It is bound to the memory of its module's weights."""
        raise TypeError(
            "an optimized module can't be copied or pickled: do so with its module, and optimize that"
        )

    def extra_repr(self) -> str:
        return f"called={self.called}"

    def _rows(self) -> list[tuple[str, str]]:
        p = self._prepared
        rows = [("called", LABELS[p.called])]
        if p.declined:
            return [*rows, ("reason", p.declined)]
        module = p.latencies["module"].median_ms
        rows.append(("measured", f"medians, in turn, {_machine(self._asked.options.threads)}"))
        for name, found in p.latencies.items():
            factor = "" if name == "module" else f"{module / found.median_ms:>8.2f}x"
            rows.append(("", f"{LABELS[name]:<26}{facts.latency(found.median_ms, module):>10}{factor}"))
        rows.append(("compared", f"largest relative differences from the module on {p.inputs}"))
        rows += [("", f"{LABELS[name]:<26}{error:>10.1e}") for name, error in p.errors.items()]
        if p.answer is not None:
            before, after = (
                facts.operators(g.graph) for g in (p.answer.result.before, p.answer.result.after)
            )
            rows.append(("operators", f"{sum(before.values())} -> {sum(after.values())}"))
        rows += [("notes" if i == 0 else "", note) for i, note in enumerate(p.notes)]
        return [*rows, *([("stale", self.stale)] if self.stale else [])]

    def _say(self, reason: str) -> None:
        warn_once(self._said, reason)


def warn_once(said: set[str], reason: str) -> None:
    """Warns that PyTorch itself runs, unless that was ``said``, at the line of the user's that is running."""
    if reason not in said:
        said.add(reason)
        frame, level = sys._getframe().f_back, 2
        while frame is not None and not is_users(frame):
            frame, level = frame.f_back, level + 1
        warnings.warn(f"PyTorch runs the module as it is: {reason}", FallbackWarning, stacklevel=level)


def _transformed() -> str:
    """What PyTorch does to calls beside computing outputs, for which it has to see all operators; empty if that is
    nothing. Models see the values of tensors alone."""
    if torch._C._is_tracing():
        return "torch.jit traces it"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a transformation of torch.func is applied to it"
    if forward_ad._current_level >= 0:
        return "derivatives are computed in forward mode"
    return "a TorchDispatchMode is active" if torch._C._len_torch_dispatch_stack() else ""


def _machine(threads: int) -> str:
    """The machine and its threads in words."""
    here = this_machine("cpu", threads)
    cpu = "this CPU" if here is None else here.hardware["cpu"]
    own = torch.get_num_threads()
    used = f"{threads} {plural(threads, 'thread')}"
    if own != threads:
        used = f"{own} for PyTorch and {used} for ONNX Runtime"
    return f"{used} of {cpu}"
