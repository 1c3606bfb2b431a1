"""Sizes that TorchDynamo leaves open in an FX graph, as it does from a function's second shape on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from tensat_dl.torch.calls import Extent, extents, size_of
from tensat_dl.torch.places import OutputPlace

#: A dimension of an input, by position.
Place = tuple[int, int]


class OpenPlace(NamedTuple):
    """As `OutputPlace`, with expressions of symbols."""

    strides: tuple[Extent, ...]
    memory: object
    size: Extent
    offset: Extent

    @classmethod
    def of(cls, x: torch.Tensor, shared: bool) -> OpenPlace | None:
        """That of an output; None if it is contiguous for sure, and does not share memory with others."""
        if shared:
            size, offset = extents([x.untyped_storage().nbytes() // x.element_size(), x.storage_offset()])
            return cls(extents(x.stride()), _memory_of(x), size, offset)
        strides = _other_strides(x)
        return None if strides is None else cls(strides, None, 0, 0)

    @property
    def symbols(self) -> set[Extent]:
        """The symbols that it depends on."""
        known = (*self.strides, self.size, self.offset)
        return {symbol for d in known if not isinstance(d, int) for symbol in d.free_symbols}

    def at(self, sizes: dict[Extent, int]) -> OutputPlace | None:
        """Where it lies for such sizes of symbols; None if that depends on others."""
        strides = tuple(size_of(d, sizes) for d in self.strides)
        size, offset = size_of(self.size, sizes), size_of(self.offset, sizes)
        if size is None or offset is None or None in strides:
            return None
        return OutputPlace(tuple(d or 0 for d in strides), self.memory, size, offset)


@dataclass(frozen=True)
class OpenSizes:
    """``numbers`` are inputs that are sizes: by position, where a tensor has each. ``symbols`` has where tensors have
    what is a symbol alone, ``shapes`` those of tensors, by position. ``outputs`` has where those lie that are not
    contiguous at all sizes, or share memory with others, else None; what is open are expressions of symbols."""

    numbers: Mapping[int, Place]
    symbols: Mapping[Extent, Place]
    shapes: Mapping[int, tuple[Extent, ...]]
    outputs: Sequence[OpenPlace | None]

    @classmethod
    def of(cls, graph: torch.fx.GraphModule) -> OpenSizes | None:
        """Those of a graph that TorchDynamo traced; None if there are none, or if a number is no size, or outputs
        share memory with inputs or, of another type, with one another, or lie as values have it."""
        inputs = [_value(n) for n in graph.graph.find_nodes(op="placeholder")]
        shapes = {i: extents(x.shape) for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)}
        places = {d: (i, axis) for i, shape in shapes.items() for axis, d in enumerate(shape)}
        symbols = {d: place for d, place in places.items() if getattr(d, "is_symbol", False)}
        numbers = {i: x.node.expr for i, x in enumerate(inputs) if isinstance(x, torch.SymInt)}
        outputs = [_value(x) for x in graph.graph.output_node().args[0]]
        made = Counter(_memory_of(x) for x in outputs if isinstance(x, torch.Tensor))
        given = {_memory_of(x) for x in inputs if isinstance(x, torch.Tensor)}
        types = {(_memory_of(x), x.dtype) for x in outputs if isinstance(x, torch.Tensor)}
        if (
            not symbols
            or given & {*made}
            or len(types) > len(made)
            or any(d not in places for d in numbers.values())
        ):
            return None
        found = [
            OpenPlace.of(x, shared=made[_memory_of(x)] > 1) if isinstance(x, torch.Tensor) else None
            for x in outputs
        ]
        if any(not place.symbols <= symbols.keys() for place in found if place is not None):
            return None  # it depends on values
        return cls({i: places[d] for i, d in numbers.items()}, symbols, shapes, found)

    def dynamic_shapes(self, position: int) -> dict[int, Any]:
        """The open dimensions of an input, as `torch.export.export` takes them."""
        shape = self.shapes.get(position, ())
        return {axis: torch.export.Dim.AUTO for axis, d in enumerate(shape) if not isinstance(d, int)}

    def equal(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        """For each symbol the first one that is as large in a call: TorchDynamo does not say which sizes are one, as
        those of keys and values are."""
        first: dict[int, int] = {}
        return tuple(first.setdefault(n, k) for k, n in enumerate(self._sizes(inputs).values()))

    def pairs(self, equal: Sequence[int]) -> list[tuple[Place, Place]]:
        """Where tensors have sizes that are ``equal`` to one another."""
        places = list(self.symbols.values())
        return [(places[k], places[first]) for k, first in enumerate(equal) if k != first]

    def places(self, inputs: Sequence[Any]) -> list[OutputPlace | None]:
        """Where the outputs of a call lie: what TorchDynamo compiles beside the graph rests on their strides."""
        if not any(self.outputs):
            return [None] * len(self.outputs)
        sizes = self._sizes(inputs)
        return [place and place.at(sizes) for place in self.outputs]

    def _sizes(self, inputs: Sequence[Any]) -> dict[Extent, int]:
        return {d: inputs[i].shape[axis] for d, (i, axis) in self.symbols.items()}


def _memory_of(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _value(x: Any) -> Any:
    return x.meta.get("example_value") if isinstance(x, torch.fx.Node) else x


def _other_strides(x: torch.Tensor) -> tuple[Extent, ...] | None:
    """The strides of a tensor that is not contiguous for sure. To evaluate them takes a millisecond."""
    shape, strides = extents(x.shape), extents(x.stride())
    usual: list[Extent] = [1]
    for d in shape[:0:-1]:
        usual.insert(0, d * usual[0])
    same = (
        a == b or (not isinstance(a - b, int) and (a - b).expand() == 0)
        for a, b in zip(strides, usual, strict=False)
    )
    return None if all(same) else strides
