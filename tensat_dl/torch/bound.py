"""ONNX models that run on the memory of PyTorch's tensors: nothing is copied on the way in or out, unless the
elements of an input do not lie one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from tensat_dl.core.words import first_line
from tensat_dl.onnx.session import Layout, NotRunnable, Session
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.torch.calls import CallInputs, CallOutputs, OtherCall, TensorLeaf, size_of
from tensat_dl.torch.capture import Declined


class BoundModel:
    """A model, which is in a file as well, that is called as the module is. Raises `Declined` if ONNX Runtime does
    not load it."""

    def __init__(
        self, model: ir.Model, path: Path, threads: int, inputs: CallInputs, outputs: CallOutputs
    ) -> None:
        self.model = model
        self._calls, self._results = inputs, outputs
        taken, given = len(model.graph.inputs), len(model.graph.outputs)
        if taken != len(inputs.tensors) or given != len(outputs.computed):
            raise Declined("its ONNX model has another number of inputs or outputs")
        for value, leaf in (
            *zip(model.graph.inputs, inputs.of_tensors, strict=True),
            *zip(model.graph.outputs, outputs.computed, strict=True),
        ):
            _check_type(value, leaf.dtype)
        self._memory = None if inputs.open else self._layouts({})
        try:
            self._session = Session(path, threads, any_size=inputs.open)
        except NotRunnable as e:
            narrow = any(v.dtype is ir.DataType.BFLOAT16 for n in model.graph for v in n.outputs)
            hint = (
                "; it computes in bfloat16, for which ONNX Runtime has few operators on the CPU"
                if narrow
                else ""
            )
            raise Declined(f"ONNX Runtime does not load it: {e}{hint}") from None

    @property
    def models(self) -> dict[str, ir.Model]:
        """The model, under no range."""
        return {"": self.model}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs of a call of the module. Raises `OtherCall` for one that the model was not made for."""
        leaves = self._calls.leaves(args, kwargs)
        return self.structured(self.computed(leaves), leaves)

    def computed(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """The tensors that the model computes from the leaves of inputs, in memory of their own. Raises
        `OtherCall`."""
        given = [leaves[i].contiguous() for i in self._calls.tensors]  # alive until the model has run
        memory = self._memory
        if memory is None:
            memory = self._layouts(self._calls.sizes(leaves))
        before, after = memory
        results = [  # ONNX Runtime finds memory where it is not known how much, and where there is nothing to write
            None if None in x.shape or 0 in x.shape else torch.empty(x.shape, dtype=d, device="cpu")
            for x, d in after
        ]
        try:
            found = self._session.run_on(
                [(x, tensor.data_ptr()) for x, tensor in zip(before, given, strict=True)],
                [(x, 0 if r is None else r.data_ptr()) for (x, _), r in zip(after, results, strict=True)],
            )
        except NotRunnable as e:
            raise OtherCall(f"ONNX Runtime does not run it: {e}") from None
        rest = iter(found)
        return [torch.from_numpy(next(rest)) if r is None else r for r in results]

    def structured(self, computed: Sequence[torch.Tensor], leaves: Sequence[Any]) -> Any:
        """The outputs of a call, of whose inputs these are the leaves."""
        return self._results.structured(computed, leaves)

    def _layouts(self, sizes: dict[Any, int]) -> tuple[list[Layout], list[tuple[Layout, Any]]]:
        """Of inputs, and of outputs with their types, where open dimensions have these sizes. Shapes that depend on
        the values of inputs have None in them."""

        def layout(value: ir.Value, leaf: TensorLeaf) -> Layout:
            return Layout(
                str(value.name), int(value.dtype or 0), tuple(size_of(d, sizes) for d in leaf.shape)
            )

        inputs = zip(self.model.graph.inputs, self._calls.of_tensors, strict=True)
        outputs = zip(self.model.graph.outputs, self._results.computed, strict=True)
        return [layout(*pair) for pair in inputs], [(layout(v, leaf), leaf.dtype) for v, leaf in outputs]


@dataclass(frozen=True)
class BySize:
    """Models for ranges of the sizes of one dimension, called as one. ``parts`` has each range in text, its largest
    size, and its model; ``place`` the position of a leaf, and the dimension."""

    calls: CallInputs
    parts: Sequence[tuple[str, int | None, BoundModel]]
    place: tuple[int, int]

    @property
    def models(self) -> dict[str, ir.Model]:
        """The models by range."""
        return {text: bound.model for text, _, bound in self.parts}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs of a call of the module. Raises `OtherCall` for one that the models were not made for."""
        leaves = self.calls.leaves(args, kwargs)
        model = self._model(leaves)
        return model.structured(model.computed(leaves), leaves)

    def computed(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """As `BoundModel.computed`."""
        return self._model(leaves).computed(leaves)

    def _model(self, leaves: Sequence[Any]) -> BoundModel:
        leaf, axis = self.place
        n = leaves[leaf].shape[axis]
        for _, high, model in self.parts:
            if high is None or n <= high:
                return model
        raise OtherCall(f"it was not made for such sizes: {n}")


def round_outputs(model: ir.Model, outputs: CallOutputs) -> None:
    """Rounds outputs of a model to the types that they have in PyTorch: the exporter gives sums of f16 in f32."""
    graph = model.graph
    for i, (value, leaf) in enumerate(zip(graph.outputs, outputs.computed, strict=False)):
        own = _element_type(leaf.dtype)
        if value.dtype in (None, own) or not (value.dtype.is_floating_point() and own.is_floating_point()):
            continue
        cast = ir.node("Cast", [value], {"to": int(own)})
        (rounded,) = cast.outputs
        rounded.name, rounded.shape, rounded.type = f"{value.name}_rounded", value.shape, ir.TensorType(own)
        graph.append(cast)
        graph.outputs[i] = rounded


def _element_type(dtype: torch.dtype) -> ir.DataType:
    """The element type that a tensor has in ONNX. Raises `Declined`."""
    return ir.DataType.from_numpy(array_of(torch.empty(0, dtype=dtype)).dtype)


def _check_type(value: ir.Value, dtype: torch.dtype) -> None:
    """Raises `Declined` if a value of a model has another element type than a tensor in whose memory it is to lie: a
    larger one would be written beyond its end."""
    if value.dtype is None:
        raise Declined(f"the type of {value.name} in its ONNX model is not known")
    expected = _element_type(dtype)
    if value.dtype != expected:
        found, wanted = value.dtype.name.lower(), expected.name.lower()
        raise Declined(f"{value.name} is {found} in its ONNX model, and {wanted} in PyTorch")


def array_of(x: torch.Tensor) -> Array:
    """The elements. Raises `Declined` for a type that NumPy does not have."""
    x = x.detach().contiguous()
    if x.dtype == torch.bfloat16:  # which NumPy has from another package than PyTorch knows
        return np.asarray(x.view(torch.int16).numpy()).view(ir.DataType.BFLOAT16.numpy())
    try:
        return np.asarray(x.numpy())
    except TypeError as e:
        raise Declined(f"NumPy has no such type: {first_line(e)}") from None
