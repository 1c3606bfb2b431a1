"""The backend ``tensat`` of `torch.compile`.

It optimizes an FX graph when that is called, once for each combination of shapes; once for all sizes where
TorchDynamo leaves them open, as it does when a shape changes, and such a model is found. The weights, which such
graphs take as inputs, become the graph's own; if they change, they are folded anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tensat_dl.torch import FallbackWarning, Optimized, optimize
from tensat_dl.torch.cut import Closed
from tensat_dl.torch.numbers import numbers_in, with_numbers
from tensat_dl.torch.open_graphs import OpenSizes
from tensat_dl.torch.optimized import warn_once
from tensat_dl.torch.places import OutputPlace, placed, places_of

#: A graph is optimized for at most so many combinations of shapes.
MOST_SHAPES = 8
#: And for so many sets of weights: layers that are compiled one by one share a graph.
MOST_WEIGHTS = 64
#: Where outputs lie is remembered for so many combinations of shapes and strides.
MOST_LAYOUTS = 256


def tensat(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> OptimizedFx:
    """Compiles an FX graph. ``options`` are those of `tensat_dl.torch.optimize`."""
    return OptimizedFx(graph, example_inputs, options or {})


class OptimizedFx:
    """An FX graph that is optimized as it is called."""

    def __init__(
        self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        self._graph = graph
        self._options = options
        #: The positions of weights among the inputs.
        self._weights = [i for i, x in enumerate(example_inputs) if _is_weight(x)]
        self._others = sorted({*range(len(example_inputs))} - {*self._weights})
        #: Sizes that are left open, and which of them are equal where no model is made for all.
        self._open = OpenSizes.of(graph)
        self._closed: set[tuple[int, ...]] = set()
        #: The positions of numbers, and whether models are made for their values: `torch.export` takes factors that
        #: it does not know, and not the epsilon of a norm.
        self._numbers, self._by_value = numbers_in(graph), False
        self._said: set[str] = set()
        #: By the weights: these, the number of the last call with them, and what was made for them, by other inputs.
        self._made: dict[tuple[int, ...], tuple[list[Any], int, dict[tuple[Any, ...], Optimized]]] = {}
        self._calls = 0
        #: By the shapes and strides of inputs, and the shapes of outputs: where these lie in PyTorch.
        self._places: dict[tuple[Any, ...], list[OutputPlace | None]] = {}

    def __call__(self, *inputs: Any) -> Any:
        weights = [inputs[i] for i in self._weights]
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
            self._say("gradients are recorded: call it under torch.no_grad() or torch.inference_mode()")
            return self._graph(*inputs)
        known = self._made_for(weights)
        if known is None:
            self._say(f"it was optimized for {MOST_WEIGHTS} sets of weights, and these are others")
            return self._graph(*inputs)
        opened, key = self._open, tuple[Any, ...]()
        if opened is not None and (key := opened.equal(inputs)) in self._closed:
            opened = None
        values = {i: inputs[i].item() for i in self._numbers} if self._by_value else {}
        known_there = {*values, *(opened.numbers if opened is not None else ())}
        given = tuple(inputs[i] for i in self._others if i not in known_there)
        if opened is None:
            key = tuple((x.dtype, x.shape) if isinstance(x, torch.Tensor) else x for x in given)
        equal, key = key, (*key, *map(repr, values.values()))  # 0 and -0 are two numbers
        fast = known.get(key)
        if fast is None:
            if len(known) == MOST_SHAPES:
                self._say(
                    f"it was optimized for {MOST_SHAPES} combinations of shapes, and this is another one"
                )
                return self._graph(*inputs)
            fast = self._optimized(given, weights, equal, opened, values)
            if fast.declined and self._numbers and not self._by_value:
                self._by_value = True
                return self(*inputs)
            if fast.declined and opened is not None:
                self._closed.add(equal)
                return self(*inputs)
            known[key] = fast
        elif not self._options.get("frozen") and not fast.declined and fast.stale:
            fast.refresh()  # what was declined may be stale after each call, as it writes to its buffers
        if fast.called == "module":
            return fast(*given)
        outputs = fast(*given)
        return placed(outputs, opened.places(inputs) if opened else self._places_of(inputs, outputs))

    def _optimized(
        self,
        given: tuple[Any, ...],
        weights: list[Any],
        equal: tuple[Any, ...],
        opened: OpenSizes | None,
        values: Mapping[int, float],
    ) -> Optimized:
        """The graph with its weights and the values of numbers, for the sizes of these inputs; where they are open,
        for all of which the same ones are ``equal``."""
        own = {
            **dict(zip(self._weights, weights, strict=True)),
            **{i: torch.tensor(values[i]) for i in values},
        }
        graph = with_numbers(self._graph, values) if values else self._graph
        with warnings.catch_warnings():
            if opened is not None or (
                self._numbers and not values
            ):  # if it is declined, there is another way
                warnings.simplefilter("ignore", FallbackWarning)
            if opened is None:
                return optimize(Closed(graph, own), given, **self._options)
            shapes = [opened.dynamic_shapes(i) for i in self._others if i not in {*values, *opened.numbers}]
            closed = Closed(graph, own, opened.numbers, opened.pairs(equal))
            return optimize(closed, given, dynamic_shapes={"given": tuple(shapes)}, **self._options)

    def _places_of(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[OutputPlace | None]:
        """Where outputs lie in PyTorch: what Dynamo compiles beside the graph rests on their strides, and writes to
        one of them may be meant for another. Their shapes may depend on more than those of inputs."""
        layout: tuple[Any, ...] = tuple(
            (x.shape, x.stride()) if isinstance(x, torch.Tensor) else x for x in inputs
        )
        layout += tuple(x.shape for x in outputs if isinstance(x, torch.Tensor))
        if layout not in self._places:
            if len(self._places) == MOST_LAYOUTS:
                self._places.clear()
            self._places[layout] = places_of(self._graph(*inputs))
        return self._places[layout]

    def _made_for(self, weights: list[Any]) -> dict[tuple[Any, ...], Optimized] | None:
        """What was made for these weights. Other weights are forgotten as soon as new ones come, unless they were
        there a short while ago, as those of all layers are. None if there are too many."""
        self._calls += 1
        key = tuple(map(id, weights))
        if key not in self._made:
            recent = self._calls - 2 * len(self._made) - 2
            self._made = {k: found for k, found in self._made.items() if found[1] >= recent}
            if len(self._made) == MOST_WEIGHTS:
                return None
        _, _, made = self._made.get(key, ((), 0, {}))
        self._made[key] = (weights, self._calls, made)
        return made

    def _say(self, reason: str) -> None:
        warn_once(self._said, reason)


def _is_weight(x: Any) -> bool:
    """Whether TorchDynamo found an input in a module, rather than among the arguments of a call."""
    return isinstance(x, torch.nn.Parameter) or getattr(x, "_dynamo_static_input_type", None) is not None
