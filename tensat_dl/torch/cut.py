"""Programs that are cut at operators that are left to PyTorch: custom ones (`torch.library`), and those without an
exact translation. What lies between them are modules of their own, which can have models."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx.passes.split_module import split_module

from tensat_dl.torch.calls import CallInputs, CallOutputs
from tensat_dl.torch.capture import is_inexact

#: What runs in place of a module that is called with these inputs; None: the module.
Replaced = Callable[[torch.nn.Module, tuple[Any, ...]], Callable[..., Any] | None]
#: The namespaces of PyTorch's own operators.
_OWN = ("aten", "prims", "prim")


@dataclass(frozen=True)
class LeftToPyTorch:
    """Which operators are left to PyTorch: those without a translation, or without an exact one, and custom ones but
    for those that are ``known``."""

    known: Collection[object]
    untranslated: object = None

    def has(self, node: torch.fx.Node) -> bool:
        """Whether the operator of a node is left."""
        untranslated = self.untranslated is not None and node.target is self.untranslated
        return untranslated or _is_custom(node, self.known) or is_inexact(node)

    def names(self, program: torch.export.ExportedProgram) -> list[str]:
        """The names of a program's operators that are left."""
        return list(dict.fromkeys(n.target._schema.name for n in program.graph.nodes if self.has(n)))


def has_custom_operators(program: torch.export.ExportedProgram) -> bool:
    return any(_is_custom(n, ()) for n in program.graph.nodes)


class CutModel:
    """A program without open dimensions that is called as its module is, whose parts between operators that are left
    to PyTorch are ``replaced``."""

    #: There is no ONNX model of the whole.
    models: Mapping[str, Any] = {}

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        left: LeftToPyTorch,
        example: Sequence[Any],
        inputs: CallInputs,
        outputs: CallOutputs,
        replaced: Replaced,
    ) -> None:
        self._calls, self._results = inputs, outputs
        level = _levels(program, left)
        whole = split_module(program.graph_module, None, level.__getitem__)
        holders = {**program.state_dict, **program.constants}
        held = {
            spec.arg.name: holders[spec.target]
            for spec in program.graph_signature.input_specs
            if spec.kind != InputKind.USER_INPUT and spec.target is not None
        }
        #: By placeholder: a weight, or the position of an input among the leaves.
        self._given = [
            (held[n.target], None) if n.target in held else (None, inputs.names.index(n.target))
            for n in whole.graph.find_nodes(op="placeholder")
        ]
        parts = _ReplacesParts(whole, held, left, replaced)
        parts.run(*self._arguments(example))
        #: How many parts there are, and how many of them were replaced.
        self.parts, self.replaced = parts.count, len(parts.found)
        for name, run in parts.found.items():
            setattr(whole, name, _ReplacedPart(*run))
        self._whole = whole

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs of a call of the module. Raises `OtherCall` for one that it was not made for."""
        leaves = self._calls.leaves(args, kwargs)
        return self._results.structured(self.computed(leaves), leaves)

    def computed(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """The tensors that are computed from the leaves of inputs. Raises `OtherCall`."""
        return [x for x in self._whole(*self._arguments(leaves)) if x is not None]

    def _arguments(self, leaves: Sequence[Any]) -> list[Any]:
        return [weight if i is None else leaves[i] for weight, i in self._given]


class Closed(torch.nn.Module):  # type: ignore[misc]
    """An FX graph with its weights, given by position, which takes the other inputs, but for ``sizes`` of tensors: by
    position, the tensor and its dimension. Those of each pair of ``same`` are one size. Whoever calls it sees to
    outputs that share memory."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        weights: Mapping[int, torch.Tensor],
        sizes: Mapping[int, tuple[int, int]] | None = None,
        same: Sequence[tuple[tuple[int, int], tuple[int, int]]] = (),
    ) -> None:
        super().__init__()
        self.graph = graph
        self._positions = list(weights)
        self._sizes = dict(sizes or {})
        self._same = list(same)
        names = [n.name for n in graph.graph.find_nodes(op="placeholder")]
        self._names = [names[i] for i in self._positions]
        for i, tensor in weights.items():
            if isinstance(tensor, torch.nn.Parameter):
                self.register_parameter(names[i], tensor)
            else:
                self.register_buffer(names[i], tensor)

    def forward(self, *given: Any) -> Any:
        inputs = list(given)
        own = {i: getattr(self, name) for i, name in zip(self._positions, self._names, strict=True)}
        for i in sorted((*own, *self._sizes)):
            inputs.insert(i, own.get(i))
        for (i, a), (j, b) in self._same:
            torch._check(inputs[i].shape[a] == inputs[j].shape[b])
        for i, (tensor, axis) in self._sizes.items():
            inputs[i] = inputs[tensor].shape[axis]
        return self.graph(*inputs)


class _ReplacesParts(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a program that is cut, and has its parts replaced on the way, where their inputs are known."""

    def __init__(
        self, whole: Any, held: Mapping[str, torch.Tensor], left: LeftToPyTorch, replaced: Replaced
    ) -> None:
        super().__init__(whole)
        self._held, self._left, self._replaced = held, left, replaced
        self.count = 0
        #: By the name of a part: what runs in its place, and which of its operands that takes.
        self.found: dict[str, tuple[Callable[..., Any], list[int]]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        found = super().run_node(n)
        if n.op == "call_module":
            part = self.fetch_attr(str(n.target))
            if not any(self._left.has(inner) for inner in part.graph.nodes) and not _is_resized(part):
                self.count += 1
                weights = {i: self._held[a.target] for i, a in enumerate(n.args) if a.target in self._held}
                taken = [i for i in range(len(n.args)) if i not in weights]
                args, _ = self.fetch_args_kwargs_from_env(n)
                run = self._replaced(Closed(part, weights).eval(), tuple(args[i] for i in taken))
                if run is not None:
                    self.found[str(n.target)] = run, taken
        return found


class _ReplacedPart(torch.nn.Module):  # type: ignore[misc]
    """What runs in place of a part, given those of its operands that are no weights."""

    def __init__(self, run: Callable[..., Any], taken: Sequence[int]) -> None:
        super().__init__()
        self._run, self._taken = run, taken

    def forward(self, *operands: Any) -> Any:
        return self._run(tuple(operands[i] for i in self._taken), {})


def _is_resized(part: torch.fx.GraphModule) -> bool:
    """Whether a part takes sizes that depend on values, or tensors of such sizes."""
    given = [n.meta.get("val") for n in part.graph.find_nodes(op="placeholder")]
    sizes = [n for x in given for n in (x.shape if isinstance(x, torch.Tensor) else [x])]
    return any(isinstance(n, torch.SymInt) for n in sizes)


def _is_custom(node: torch.fx.Node, known: Collection[object]) -> bool:
    op = node.target
    return isinstance(op, torch._ops.OpOverload) and op.namespace not in _OWN and op not in known


def _levels(program: torch.export.ExportedProgram, left: LeftToPyTorch) -> dict[torch.fx.Node, int]:
    """The part of each node, a number that never falls along the edges: odd for those that are left, else even."""
    found: dict[torch.fx.Node, int] = {}
    for node in program.graph.nodes:
        level = max((found[i] for i in node.all_input_nodes), default=0)
        if node.target is not operator.getitem:  # which stays with the operator whose results it takes
            level += (level % 2 == 0) if left.has(node) else (level % 2 == 1)
        found[node] = level
    return found
