"""Trials of a module and the models made of it: whether they compute the same, and how fast each is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tensat_dl.measure.statistics import Latency, summary
from tensat_dl.measure.timing import Run, clock_of, in_turn
from tensat_dl.onnx.agreement import relative_error
from tensat_dl.torch.bound import BoundModel
from tensat_dl.torch.calls import CallOutputs, OtherCall
from tensat_dl.torch.capture import Declined

#: How often inputs are drawn to compare on, beside the example.
DRAWS = 2
#: The arguments of a call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

Name = TypeVar("Name", bound=str)


class Expected:
    """What a module computes on the example inputs and on others. Raises `Declined` if it does not run on the
    example, or if an output shares memory with an input or a weight, as those of models do not."""

    def __init__(
        self, module: Callable[..., Any], example: Arguments, outputs: CallOutputs, seed: int
    ) -> None:
        self.cases: list[tuple[list[Any], list[torch.Tensor]]] = []
        leaves, spec = pytree.tree_flatten(example)
        for i, given in enumerate((leaves, *_drawn(leaves, seed))):
            args, kwargs = pytree.tree_unflatten(given, spec)
            try:
                found = module(*args, **kwargs)
            except Exception as e:
                if i == 0:
                    raise Declined(f"it does not run on the example inputs: {e}") from None
                continue  # inputs that it does not take, perhaps
            computed = outputs.of_structured(found)
            if i == 0:
                _check_apart(module, computed, leaves)
            self.cases.append((given, computed))

    @property
    def inputs(self) -> str:
        """The inputs in words."""
        others = len(self.cases) - 1
        return f"the example inputs and {others} others like them" if others else "the example inputs"

    def error(self, model: BoundModel) -> float:
        """The largest relative difference of a model's outputs. Raises `Declined` if one is larger than rounding
        explains."""
        worst = 0.0
        for leaves, expected in self.cases:
            try:
                actual = model.computed(leaves)
            except OtherCall as e:
                raise Declined(str(e)) from None
            for k, (x, y) in enumerate(zip(expected, actual, strict=True)):
                error, limit = relative_error(_array(x), _array(y))
                if not error <= limit:
                    raise Declined(f"output {k} differs by {error:.1e}, more than {limit:.1e}")
                worst = max(worst, error)
        return worst


def times(runs: Mapping[Name, Run], threads: int) -> dict[Name, Latency]:
    """The latency of each, timed in turn in this process."""
    with torch.no_grad():
        for run in runs.values():
            run()
        one = threads == 1 and torch.get_num_threads() == 1
        rounds = in_turn(list(runs.values()), clock_of(1) if one else time.perf_counter)
    return {name: summary([r[k] for r in rounds]) for k, name in enumerate(runs)}


def _drawn(leaves: Sequence[Any], seed: int) -> Iterator[list[Any]]:
    """Inputs of the same types. Numbers are drawn from those of the example: integers may be indices, which have to
    be in range. Floats come from a normal distribution every other time."""
    generator = torch.Generator().manual_seed(seed)
    for i in range(DRAWS):
        yield [_like(x, i % 2 == 1, generator) if isinstance(x, torch.Tensor) else x for x in leaves]


def _like(x: torch.Tensor, normal: bool, generator: torch.Generator) -> torch.Tensor:
    x = x.detach()
    if x.numel() == 0:
        return x
    if normal and x.dtype.is_floating_point and bool(torch.isfinite(x).all()):
        spread = float(x.double().std(unbiased=False)) or 1.0
        drawn = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        return (drawn * spread + x.double().mean()).to(x.dtype)
    picked = torch.randint(x.numel(), (x.numel(),), generator=generator)
    return x.reshape(-1)[picked].reshape(x.shape)


def _check_apart(module: Any, computed: Sequence[torch.Tensor], leaves: Sequence[Any]) -> None:
    held = [*leaves, *module.parameters(), *module.buffers()]
    taken = {x.untyped_storage().data_ptr() for x in held if isinstance(x, torch.Tensor) and x.numel()}
    for k, x in enumerate(computed):
        if x.numel() and x.untyped_storage().data_ptr() in taken:
            raise Declined(f"output {k} shares memory with an input or a weight")


def _array(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """The elements; `relative_error` knows types that NumPy does not have by their names."""
    x = x.detach()
    if x.dtype == torch.bfloat16:
        import ml_dtypes

        return np.asarray(x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(x.numpy())
