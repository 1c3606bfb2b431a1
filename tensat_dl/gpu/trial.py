"""Tries the implementations of one application: their results are checked and their calls are timed.

A kernel may crash the process, or take the GPU down with it, so `answers` runs in a child; see `profiling.Worker`.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from math import inf
from typing import Any

import torch

from tensat_dl.core.graph import FLOATS, Attrs, TensorType
from tensat_dl.cost.application import OpApplication
from tensat_dl.gpu import torch_device
from tensat_dl.gpu.profiling import AGAIN, Request, Role
from tensat_dl.gpu.torch_device import cache_bytes, load, once, prepare, recorder, release, wake
from tensat_dl.measure.statistics import Latency
from tensat_dl.measure.timing import MOST_CALLS, time_calls
from tensat_dl.ops.traits import positive_operands, traits
from tensat_dl.resources import kernels

#: How far a result may be from the result in f64, in units of its largest element.
TOLERANCE = {"f32": 1e-4, "f16": 5e-3, "bf16": 3e-2, "f64": 1e-10}
TF32_TOLERANCE = 5e-3
#: .. or so many times what comes of operands without the bits that TF32 lacks.
TF32_ERRORS = 2.0

#: Copies of operands that are weights that are used in turn, at most: a graph has no more calls. Together they fill
#: the cache so many times.
MOST_COPIES, FILLINGS = MOST_CALLS, 2

#: An implementation that takes so many times as long as the fastest one is timed roughly.
FAR = 2.0
#: Seconds without work after which a GPU is not at full speed.
IDLE = 0.5


def answers(requests: Iterator[Request], role: Role, where: str) -> Iterator[dict[str, Any]]:
    """``ready``; then of each request the ``names`` of the implementations, an answer for each wanted implementation,
    as soon as it is known, and ``done``. An answer without a name says why the application as a whole fails."""
    device = torch.device(where)
    prepare(device)
    kernels("registry")
    load(device)
    yield {"ready": True}
    idle_since = -inf
    for application, wanted, tf32 in requests:
        if role == "time" and time.monotonic() - idle_since > IDLE:
            wake(device)
        try:
            trial = Trial(application, device, tf32)
        except Exception as e:
            yield {"failed": _line(e)}
            _recover(device)
        else:
            yield {"names": list(trial.implementations)}
            best = inf  # seconds
            for name in trial.implementations:
                if wanted is not None and name not in wanted:
                    continue
                try:
                    if role == "check":
                        wrong = trial.check(name)
                        yield {"name": name, "failed": wrong} if wrong else {"name": name}
                    else:
                        found = trial.time(name, FAR * best)
                        best = min(best, 1e-3 * found.median_ms)
                        yield {"name": name, **asdict(found)}
                except Exception as e:
                    yield {"name": name, "failed": _line(e)}
                    _recover(device)
            del trial
        release(device)
        idle_since = time.monotonic()
        yield {"done": True}


def _recover(device: torch.device) -> None:
    """After an error, which has been told: where this process can't go on, it ends, and says that by its code."""
    if not torch_device.usable(device):
        os._exit(AGAIN)


def _line(e: Exception) -> str:
    """The first line of a message that says something."""
    text = next((line.strip() for line in str(e).splitlines() if line.strip()), "")
    kind = type(e).__name__
    if isinstance(e, torch.OutOfMemoryError):
        return "out of memory"
    return f"{kind}: {text[:200]}" if text else kind


class Trial:
    """One application with random operands on a device. Raises `Unsupported` if nothing computes it."""

    def __init__(self, application: OpApplication, device: torch.device, tf32: bool) -> None:
        registry = kernels("registry")
        self.signature, self.device = application.signature, device
        found = registry.implementations(application.signature, application.definition)
        self.implementations = {i.name: i for i in registry.usable(found, tf32)}
        self.operands = operands(application, device)
        self._cold = cold(application)
        self._reference = registry.reference(application.signature, application.definition)
        self._want: torch.Tensor | None = None

    def check(self, name: str) -> str:
        """How the result of an implementation is wrong; "" if it is right. Raises the implementation's errors."""
        want = self.want()
        implementation = self.implementations[name]
        got = implementation.build()(self.operands)
        dtype = self.signature.outputs[0].dtype
        tolerance = TF32_TOLERANCE if implementation.tf32 else TOLERANCE.get(dtype, 0.0)
        wrong = difference(got, want, kernels("launch").TORCH_TYPES[dtype], tolerance)
        if wrong and implementation.tf32:
            wrong = difference(
                got, want, kernels("launch").TORCH_TYPES[dtype], TF32_ERRORS * self._tf32_error
            )
        return wrong

    def want(self) -> torch.Tensor:
        """The right result, in f64. If it has no finite element, the operands become positive. Raises ``ValueError``
        if its type is not the signature's."""
        if self._want is None:
            want = self._in_double()
            type = self.signature.outputs[0]
            if (tuple(want.shape), want.is_floating_point()) != (type.shape, type.dtype in FLOATS):
                found = f"{str(want.dtype).removeprefix('torch.')}{list(want.shape)}"
                raise ValueError(f"it does not type-check: it is {found}, not {type}")
            if not want.isfinite().any():
                self.operands = [_positive(x) if x.is_floating_point() else x for x in self.operands]
                want = self._in_double()
            self._want = want
        return self._want

    def _in_double(self) -> torch.Tensor:
        with once():
            return in_double(self._reference, self.operands)

    @cached_property
    def _tf32_error(self) -> float:
        want = self.want()
        with once():
            return tf32_error(self._reference, self.operands, want)

    def time(self, name: str, hopeless: float = inf) -> Latency:
        """The time of a call of an implementation; a rough one if it exceeds ``hopeless`` seconds. Raises the
        implementation's errors."""
        kernel = self.implementations[name].build()
        sets = self._sets
        return time_calls(lambda i: kernel(sets[i % len(sets)]), partial(recorder, self.device), hopeless)

    @cached_property
    def _sets(self) -> list[list[torch.Tensor]]:
        """The operands of calls in turn, the same for all implementations: making 256 copies takes milliseconds."""
        return rotated(self._cold, self.operands, cache_bytes(self.device))


def operands(application: OpApplication, device: torch.device) -> list[torch.Tensor]:
    """Random tensors, the same for equal signatures; positive where the operators that take them need that."""
    generator = torch.Generator(device).manual_seed(zlib.crc32(application.signature.text.encode()))
    made = [_random(t, generator, device) for t in application.signature.inputs]
    positive = _taken(application, positive_operands)
    return [_positive(x) if i in positive and x.is_floating_point() else x for i, x in enumerate(made)]


def _positive(x: torch.Tensor) -> torch.Tensor:
    return x.abs() + 0.5


def _random(type: TensorType, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    dtype = kernels("launch").TORCH_TYPES[type.dtype]
    options: dict[str, Any] = {"generator": generator, "device": device}
    if dtype == torch.bool:
        return torch.randint(0, 2, type.shape, **options).bool()
    if not dtype.is_floating_point:
        return torch.randint(0, 8, type.shape, **options).to(dtype)
    return torch.randn(type.shape, **options).to(dtype)


def cold(application: OpApplication) -> frozenset[int]:
    """The positions of operands that are weights in a model; of a composition, in its operators."""
    return _taken(application, lambda op, _: traits(op).weights)


def _taken(application: OpApplication, positions: Callable[[str, Attrs], Iterable[int]]) -> frozenset[int]:
    """The operands that an operator takes in certain positions; of a composition, the operands that one of its
    operators takes in them."""
    if application.definition is None:
        return frozenset(positions(application.signature.op, application.signature.attrs))
    nodes = application.definition.nodes
    taken = (j for n in nodes for i, j in enumerate(n.inputs) if i in positions(n.op, n.attrs))
    return frozenset(j for j in taken if nodes[j].op == "input")


def rotated(cold: Container[int], given: Sequence[torch.Tensor], cache: int) -> list[list[torch.Tensor]]:
    """Sets of operands with copies of the weights, as many as fill the cache, up to `MOST_COPIES`. So the copies have
    no more bytes than the weights and `FILLINGS` caches."""
    size = sum(x.nbytes for i, x in enumerate(given) if i in cold)
    copies = min(MOST_COPIES, 1 + FILLINGS * cache // size) if size else 1
    return [[x.clone() if i in cold and copy else x for i, x in enumerate(given)] for copy in range(copies)]


def difference(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype, tolerance: float) -> str:
    """How a result differs from the wanted one, which is wider than its element type, by more than the tolerance; ""
    if it does not."""
    if got.shape != want.shape:
        return f"wrong: its shape is {tuple(got.shape)}, not {tuple(want.shape)}"
    if got.dtype != dtype:
        names = [str(t).removeprefix("torch.") for t in (got.dtype, dtype)]
        return f"wrong: its element type is {names[0]}, not {names[1]}"
    if want.numel() and not want.isfinite().any():
        return "not checked: no element of the result is finite"
    error = relative_error(got, want)
    if error <= tolerance:
        return ""
    return "wrong: not finite" if error == float("inf") else f"wrong: off by {error:.1e}"


def in_double(reference: Callable[[Any], torch.Tensor], given: Sequence[torch.Tensor]) -> torch.Tensor:
    """A reference computed in f64."""
    return reference([x.double() if x.is_floating_point() else x for x in given])


def tf32_error(
    reference: Callable[[Any], torch.Tensor], given: Sequence[torch.Tensor], want: torch.Tensor
) -> float:
    """The `relative_error` of a result in f64 of operands that are cut off to the ten bits of mantissa that TF32 has.

    The error of a product is small beside its largest element. An activation such as tanh makes large elements small,
    and leaves errors of small ones as they are.
    """
    cut = [(x.view(torch.int32) & -(2**13)).view(x.dtype) if x.dtype == torch.float32 else x for x in given]
    return relative_error(in_double(reference, cut), want)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """How far a result is off, in units of the largest wanted element; infinite if it is no number where it should be
    one. Elements that should be infinite, or no number, are not compared."""
    got, want = got.double(), want.double()
    known = want.isfinite()
    if not got[known].isfinite().all():
        return float("inf")
    if not known.any():
        return 0.0
    scale = max(1e-30, float(want[known].abs().max()))
    return float((got[known] - want[known]).abs().max()) / scale
