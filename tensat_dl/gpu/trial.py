"""Tries the implementations of one application: whether they compute what it means, and what they take."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from math import inf
from typing import Any

import torch

from tensat_dl.core.graph import Attrs
from tensat_dl.core.types import FLOATS, TensorType
from tensat_dl.cost.signature_file import ProfileJob
from tensat_dl.gpu.protocol import time_calls
from tensat_dl.gpu.torch_device import cache_bytes, once, recorder
from tensat_dl.measure.statistics import Latency
from tensat_dl.ops.traits import positive_operands, traits
from tensat_dl.resources import kernels

#: How far a result may be from that in f64, in units of the largest one.
TOLERANCE = {"f32": 1e-4, "f16": 5e-3, "bf16": 3e-2, "f64": 1e-10}
TF32_TOLERANCE = 5e-3

#: Copies of operands that are weights that are used in turn, at most; together they fill the cache so many times.
MOST_COPIES, FILLINGS = 64, 2


class Trial:
    """One application with random operands on a device. Raises `Unsupported` if nothing computes it."""

    def __init__(self, job: ProfileJob, device: torch.device, tf32: bool) -> None:
        registry = kernels("registry")
        self.signature, self.device = job.signature, device
        self.implementations = {
            i.name: i
            for i in registry.implementations(job.signature, job.definition)
            if i.kind != "view" and registry.runnable(i) and (tf32 or not i.tf32)
        }
        self.operands = operands(job, device)
        self._cold = cold(job)
        self._reference = registry.reference(job.signature, job.definition)
        self._want: torch.Tensor | None = None

    def check(self, name: str) -> str:
        """What is wrong with what an implementation computes; "" if nothing is. Raises whatever it raises."""
        want = self.want()
        implementation = self.implementations[name]
        got = implementation.build()(self.operands)
        dtype = self.signature.outputs[0].dtype
        tolerance = TF32_TOLERANCE if implementation.tf32 else TOLERANCE.get(dtype, 0.0)
        return difference(got, want, kernels("launch").TORCH_TYPES[dtype], tolerance)

    def want(self) -> torch.Tensor:
        """What the operands come to, in f64. If that has no finite element, the operands become positive. Raises
        ``ValueError`` if it has not the type that the signature says."""
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
            found: torch.Tensor = self._reference(
                [x.double() if x.is_floating_point() else x for x in self.operands]
            )
        return found

    def time(self, name: str, hopeless: float = inf) -> Latency:
        """What a call of an implementation takes, roughly if that is more seconds than is ``hopeless``. Raises
        whatever it raises."""
        kernel = self.implementations[name].build()
        sets = rotated(self._cold, self.operands, cache_bytes(self.device))
        return time_calls(lambda i: kernel(sets[i % len(sets)]), partial(recorder, self.device), hopeless)


def operands(job: ProfileJob, device: torch.device) -> list[torch.Tensor]:
    """Random tensors, the same for equal signatures; positive where the operators that take them need that."""
    generator = torch.Generator(device).manual_seed(zlib.crc32(job.signature.text.encode()))
    made = [_random(t, generator, device) for t in job.signature.inputs]
    positive = _taken(job, positive_operands)
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


def cold(job: ProfileJob) -> frozenset[int]:
    """The operands that are weights in a model, by position; of a composition those that its operators take so."""
    return _taken(job, lambda op, _: traits(op).weights)


def _taken(job: ProfileJob, positions: Callable[[str, Attrs], Iterable[int]]) -> frozenset[int]:
    """The operands that an operator takes in some of its positions; of a composition those that one of its operators
    takes so."""
    if job.definition is None:
        return frozenset(positions(job.signature.op, job.signature.attrs))
    nodes = job.definition.nodes
    taken = (j for n in nodes for i, j in enumerate(n.inputs) if i in positions(n.op, n.attrs))
    return frozenset(j for j in taken if nodes[j].op == "input")


def rotated(cold: Container[int], given: Sequence[torch.Tensor], cache: int) -> list[list[torch.Tensor]]:
    """The operands, with as many copies of those that are weights as it takes to fill the cache."""
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


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """How far a result is off, in units of the largest wanted element; infinite if it is no number where it should be
    one. What the wanted one has at infinity, or as no number, is not looked at."""
    got, want = got.double(), want.double()
    known = want.isfinite()
    if not got[known].isfinite().all():
        return float("inf")
    if not known.any():
        return 0.0
    scale = max(1e-30, float(want[known].abs().max()))
    return float((got[known] - want[known]).abs().max()) / scale
