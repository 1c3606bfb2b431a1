"""Trials of a module and the models made of it: whether they compute the same, and how fast each is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from operator import is_
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from tensat_dl.core.words import first_line, plural
from tensat_dl.measure.statistics import Latency, summary
from tensat_dl.measure.timing import Run, in_turn
from tensat_dl.onnx.agreement import TOLERANCE, relative_error, told_apart
from tensat_dl.onnx.blocks import apart, nudged
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.torch.bound import BoundModel, BySize, array_of
from tensat_dl.torch.calls import CallInputs, CallOutputs, Extent, OtherCall
from tensat_dl.torch.capture import Declined, quiet
from tensat_dl.torch.cut import Closed, CutModel
from tensat_dl.torch.places import OutputPlace, memory_of, places_of, sharing
from tensat_dl.torch.weights import HeldTensor, held_tensors, still_held

#: How often inputs are drawn to compare on, beside the example.
DRAWS = 2
#: Floats are so many times as large, and then so much that one is as large as this, of either sign, where it is
#: asked whether what is finite in PyTorch is finite.
WIDE, FAR = 30.0, 200.0
#: The arguments of a call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

Name = TypeVar("Name", bound=str)


class _Computed:
    """What a module computes, by the leaves of its arguments. Raises `Declined` if it changes a container among its
    inputs."""

    def __init__(self, module: torch.nn.Module, spec: pytree.TreeSpec, outputs: CallOutputs) -> None:
        self.module, self.spec, self.outputs = module, spec, outputs

    def __call__(self, given: list[Any]) -> list[torch.Tensor]:
        args, kwargs = call = pytree.tree_unflatten(given, self.spec)
        found = self.module(*args, **kwargs)
        left, spec = pytree.tree_flatten(call)
        if spec != self.spec or not all(map(is_, left, given)):
            raise Declined("it changes a list, a dictionary or another container among its inputs")
        return self.outputs.of_structured(found, given)

    def example(self, given: list[Any]) -> list[torch.Tensor]:
        """The same of inputs that it has to take. Raises `Declined` if it does not."""
        try:
            return self(given)
        except Declined:
            raise
        except Exception as e:
            raise Declined(f"it does not run on the example inputs: {first_line(e)}") from None

    def perhaps(self, given: list[Any]) -> list[torch.Tensor]:
        """The same; nothing for inputs that it does not take."""
        try:
            with quiet():
                return self(given)
        except Declined:
            raise
        except Exception:
            return []


class ExpectedOfModule:
    """What a module computes on the example inputs and on others, some of them with the sizes of symbols that are
    ``wanted``; on rows of the example alone, if other numbers may do harm (``in_rows``). Raises `Declined` if it does
    not run on the example, if it changes a container among its inputs, or if an output shares memory with an input, a
    weight or one of the program's ``constants``, or in a way that is not known for other inputs."""

    def __init__(
        self,
        module: torch.nn.Module,
        example: Arguments,
        inputs: CallInputs,
        outputs: CallOutputs,
        seed: int,
        wanted: Mapping[Extent, Sequence[int]],
        in_rows: bool = False,
        constants: Iterable[Any] = (),
    ) -> None:
        leaves, spec = pytree.tree_flatten(example)
        compute = _Computed(module, spec, outputs)
        perhaps = compute.perhaps
        first = compute.example(leaves)
        held = list(held_tensors(module, constants))
        generator = torch.Generator().manual_seed(seed)

        def drawn(shapes: Sequence[Any], normal: bool) -> list[Any]:
            return [
                x if s is None else _rows(x, s, generator) if in_rows else _like(x, s, normal, generator)
                for x, s in zip(leaves, shapes, strict=True)
            ]

        turned = [*map(_in_other_order, leaves)]
        of_turned = perhaps(turned)
        usual = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in leaves]
        lies_otherwise = any(isinstance(x, torch.Tensor) and not x.is_contiguous() for x in leaves)
        runs = [(leaves, first), (turned, of_turned), (usual, perhaps(usual) if lies_otherwise else [])]
        for given, found in runs:
            _check_apart(still_held(held), found, given)
        if not isinstance(module, Closed):  # else the caller sees to it
            outputs.places = _shared_places([found for _, found in runs if found], inputs.open)
        same = [x.shape if isinstance(x, torch.Tensor) else None for x in leaves]
        resized = list(inputs.resized(leaves, wanted))
        like = [drawn(shapes, i % 2 == 1) for i, shapes in enumerate((*[same] * DRAWS, *resized))]
        for k, x in enumerate(leaves):
            if not in_rows and _is_plain_mask(x):
                like.append([*leaves[:k], _masked_last(x), *leaves[k + 1 :]])
        others = [(given, found) for given in like if (found := perhaps(given))]
        #: Inputs, and what the module computes of them.
        self._cases = [(leaves, first), *others, (turned, of_turned)]
        #: Large inputs, and what the module computes of them.
        self._wide = [(wide, perhaps(wide)) for wide in ([] if in_rows else _enlarged(leaves))]
        self._inputs, self._perhaps = inputs, perhaps
        #: By output, what the coarsest type allows of those that it is computed in.
        self._coarsest = [
            max((TOLERANCE.get(str(t).removeprefix("torch."), 0.0) for t in types), default=0.0)
            for types in outputs.computed_in
        ]
        #: By symbol, inputs where it is 1, and what the module computes there.
        self._ones: list[tuple[Extent, list[Any], list[torch.Tensor]]] = []
        for symbol, n in inputs.sizes(leaves).items():
            single = None if n == 1 else inputs.resized_to(leaves, symbol, 1)
            if single is not None:
                given = drawn(single, False)
                if found := perhaps(given):
                    self._ones.append((symbol, given, found))
                else:
                    inputs.leave_out_one(symbol)
        #: The inputs in words.
        self.inputs = "the example inputs"
        if others:
            sizes = ", some of other sizes" if resized else ""
            self.inputs += f" and {len(others)} {plural(len(others), 'other')} like them{sizes}"

    def error(self, model: BoundModel | BySize | CutModel) -> float:
        """The largest relative difference of a model's outputs. Raises `Declined` if one is larger than rounding
        explains, or not finite where that of large inputs is. A size of 1 where outputs differ is left out."""
        worst = max(self._error(model, given, expected) for given, expected in self._cases)
        self._check_large(model)
        for symbol, given, expected in self._ones:
            try:
                self._error(model, given, expected)
            except Declined:
                self._inputs.leave_out_one(symbol)
        return worst

    def _error(
        self, model: BoundModel | BySize | CutModel, given: list[Any], expected: Sequence[torch.Tensor]
    ) -> float:
        """The largest relative difference of a model's outputs from these, 0 if there are none. Raises `Declined` if
        one is larger than rounding explains."""
        worst = 0.0
        on = "" if given is self._cases[0][0] else " on inputs that were drawn like the example"
        for k, (x, y) in enumerate(zip(expected, _computed(model, given) if expected else (), strict=True)):
            error, limit = relative_error(array_of(x), array_of(y))
            limit = limit and max(limit, self._coarsest[k])
            if not error <= limit:
                raise Declined(told_apart(k, error, limit, on))
            if block := apart(array_of(x), array_of(y), limit, partial(self._moved, given, k)):
                raise Declined(f"output {k} differs {block}{on}")
            worst = max(worst, error)
        return worst

    def _moved(self, given: list[Any], k: int) -> list[Array]:
        """An output of the module for inputs that are changed a little."""
        found = self._perhaps([_nudged(x) if _has_floats(x) else x for x in given])
        return [array_of(found[k])] if found else []

    def _check_large(self, model: BoundModel | BySize | CutModel) -> None:
        """Raises `Declined` if a result is not finite that is in PyTorch, as logarithms of what has become 0."""
        for given, expected in self._wide:
            found = _computed(model, given) if expected else ()
            for k, (x, y) in enumerate(zip(expected, found, strict=True)):
                if x.dtype.is_floating_point and bool((torch.isfinite(x) & ~torch.isfinite(y)).any()):
                    raise Declined(f"output {k} is not finite where the module's is, for large inputs")


def _computed(model: BoundModel | BySize | CutModel, given: list[Any]) -> list[torch.Tensor]:
    """What a model computes. Raises `Declined` for inputs that it does not take."""
    try:
        return model.computed(given)
    except OtherCall as e:
        raise Declined(str(e)) from None


def times(runs: Mapping[Name, Run], threads: int) -> dict[Name, Latency]:
    """The latency of each, timed in turn in this process."""
    with torch.no_grad():
        for run in runs.values():
            run()
        rounds = in_turn(list(runs.values()), max(threads, torch.get_num_threads()))
    return {name: summary([r[k] for r in rounds]) for k, name in enumerate(runs)}


def _is_plain_mask(x: Any) -> bool:
    """Whether a tensor may be a mask that masks nothing, or all: truth values, or zeros or ones, all alike."""
    may_be = isinstance(x, torch.Tensor) and (
        x.dtype == torch.bool or (x.dim() > 1 and not x.dtype.is_floating_point)
    )
    if not may_be or not x.dim() or x.shape[-1] < 2 or not x.numel() or x.dtype.is_complex:
        return False
    first = x.reshape(-1)[0]
    return bool((first == 0) | (first == 1)) and bool((x == first).all())


def _masked_last(x: torch.Tensor) -> torch.Tensor:
    """The same mask with another last column, as where a sequence is padded."""
    changed = x.detach().clone()
    changed[..., -1] = 1 - int(changed.reshape(-1)[0])
    return changed


def _like(x: torch.Tensor, shape: Sequence[int], normal: bool, generator: torch.Generator) -> torch.Tensor:
    """A tensor of the same type. Its numbers are drawn from those of ``x``: integers may be indices, which have to be
    in range, and ascend where those of ``x`` do, from the same one on: where parts begin. Floats may come from a
    ``normal`` distribution. A mask has the same rows, in any order: one that masks all leads to no number, or to
    different ones."""
    x = x.detach()
    count = prod(shape)
    if not count or not x.numel():
        return x.new_zeros(shape)
    if bool(torch.isinf(x).any() if x.dtype.is_floating_point else ((x == 0) | (x == 1)).all()):
        return _rows(x, shape, generator)
    if normal and _all_finite(x):
        spread = float(x.double().std(unbiased=False)) or 1.0
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return (drawn * spread + x.double().mean()).to(x.dtype)
    picked = torch.randint(x.numel(), (count,), generator=generator)
    found = x.reshape(-1)[picked].reshape(shape)
    if not x.dtype.is_floating_point and x.dim() and x.shape[-1] > 1 and _ascends(x):
        found = found.sort(dim=-1).values
        found[..., 0] = x.min()
    return found


def _ascends(x: torch.Tensor) -> bool:
    low, high = x[..., :-1], x[..., 1:]
    return bool((low <= high).all()) and bool((low < high).any())


def _rows(x: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Rows of a tensor, drawn, and as long as they shall be: other axes keep their order, and columns may mean
    something each."""
    if not x.numel():
        return x.new_zeros(shape)
    for axis, (old, n) in enumerate(zip(x.shape, shape, strict=True)):
        places = torch.arange(n) * old // max(1, n) if axis else torch.randint(old, (n,), generator=generator)
        x = x.detach().index_select(axis, places)
    return x


def _enlarged(leaves: Sequence[Any]) -> Iterator[list[Any]]:
    """The same with larger floats. What is infinite is a mask, and stays."""
    for sign in (1, -1):
        yield [x * (sign * WIDE) if _all_finite(x) else x for x in leaves]
        yield [x * (sign * max(WIDE, FAR / _largest(x))) if _all_finite(x) else x for x in leaves]


def _nudged(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(nudged(array_of(x.double()))).to(x.dtype)


def _has_floats(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype.is_floating_point


def _all_finite(x: Any) -> bool:
    return _has_floats(x) and bool(torch.isfinite(x).all())


def _largest(x: torch.Tensor) -> float:
    """The largest magnitude; 1 where there is none to divide by."""
    largest = float(x.detach().abs().max()) if x.numel() else 0.0
    return largest if 0 < largest < float("inf") else 1.0


def _in_other_order(x: Any) -> Any:
    """A tensor whose last dimension is the first in memory; of one dimension, one with gaps."""
    if not isinstance(x, torch.Tensor) or not x.dim():
        return x
    if x.dim() == 1:
        return x.detach().repeat_interleave(2)[::2]
    return x.detach().transpose(0, -1).contiguous().transpose(0, -1)


def _check_apart(
    weights: Sequence[HeldTensor], computed: Sequence[torch.Tensor], leaves: Sequence[Any]
) -> None:
    """Raises `Declined` for outputs that share memory with what is not computed."""
    tensors = (*leaves, *(held.tensor for held in weights))
    owners = {memory_of(x) for x in tensors if isinstance(x, torch.Tensor) and x.numel()}
    for k, x in enumerate(computed):
        if x.numel() and memory_of(x) in owners:
            raise Declined(f"output {k} shares memory with an input or a weight")


def _shared_places(runs: Sequence[Sequence[torch.Tensor]], is_open: bool) -> list[OutputPlace | None] | None:
    """Where outputs lie that share memory with one another; None if none do. Raises `Declined` if that is not known
    for other inputs than these runs are of."""
    first = runs[0]
    shared = sharing(first)
    if any(sharing(found) != shared for found in runs):
        raise Declined("which outputs share memory depends on where inputs lie")
    for k, other in enumerate(shared):
        if k != other and (is_open or first[k].dtype != first[other].dtype):
            why = "sizes are open" if is_open else "their types are different"
            raise Declined(f"output {k} shares memory with output {other}, and {why}")
    return places_of(first) if shared != list(range(len(shared))) else None
