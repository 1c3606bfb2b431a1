"""The calls that a program was made for: the structure of inputs and outputs, and the types of their tensors.

A structure is flattened to leaves, as `torch.utils._pytree` does. A leaf that is no tensor is a constant of the
program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

import torch
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree

from tensat_dl.torch.capture import Declined
from tensat_dl.torch.places import OutputPlace, placed

#: The sizes of symbols are remembered for so many combinations of shapes.
MOST_KNOWN = 1000
#: A dimension: a size, or an expression of the program's symbols for sizes.
Extent = Any


class OtherCall(Exception):
    """A call for which the program was not made. The message says what differs."""


@dataclass(frozen=True, slots=True)
class TensorLeaf:
    """A tensor of inputs or outputs."""

    dtype: Any
    shape: tuple[Extent, ...]

    @classmethod
    def of(cls, value: torch.Tensor) -> TensorLeaf:
        """That of a tensor in a program."""
        return cls(value.dtype, extents(value.shape))

    @property
    def closed_shape(self) -> tuple[int, ...] | None:
        """The shape, if no dimension of it is open."""
        return self.shape if all(isinstance(d, int) for d in self.shape) else None

    def __str__(self) -> str:
        return _described(self.dtype, self.shape)


def by_position(forward: Callable[..., Any], args: Any, kwargs: Any) -> inspect.BoundArguments:
    """The same arguments, by position where that is possible. Raises TypeError for arguments that do not fit."""
    return inspect.signature(forward).bind(*args, **kwargs)


def without_defaults(forward: Callable[..., Any], args: Any, kwargs: Any) -> inspect.BoundArguments:
    """The same without those that are the default anyway."""
    signature = inspect.signature(forward)
    bound = signature.bind(*args, **kwargs)
    for name, value in tuple(bound.arguments.items()):
        default = signature.parameters[name].default
        plain = isinstance(value, bool | int | float | str)
        if value is default or (plain and is_same(value, default)):
            del bound.arguments[name]
    return bound


def is_same(x: Any, y: Any) -> bool:
    """Whether what is no tensor is the same: NaN is, and 0 and -0 are two numbers, as their quotients are."""
    if type(x) is not type(y):
        return False
    return repr(x) == repr(y) if isinstance(x, float | complex) else bool(x == y)


class CallInputs:
    """The inputs that a program takes, of which there is an example, as `by_position` or `without_defaults` gives it.
    Raises `Declined` if they differ from those that the program knows."""

    def __init__(
        self,
        forward: Callable[..., Any],
        example: tuple[tuple[Any, ...], dict[str, Any]],
        program: torch.export.ExportedProgram,
    ) -> None:
        self._forward = forward
        leaves, self._spec = pytree.tree_flatten(example)
        values = {n.name: n.meta["val"] for n in program.graph.find_nodes(op="placeholder")}
        args = [s.arg for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
        self.names = [a.name for a in args]
        if len(args) != len(leaves):
            raise Declined(f"torch.export takes {len(args)} inputs, and there are {len(leaves)}")
        self._leaves = [
            TensorLeaf.of(values[a.name]) if isinstance(a, TensorArgument) else leaf
            for a, leaf in zip(args, leaves, strict=True)
        ]
        #: The positions of tensors among the leaves.
        self.tensors = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, TensorLeaf)]
        if any(isinstance(x, torch.Tensor) != (i in self.tensors) for i, x in enumerate(leaves)):
            raise Declined("torch.export takes other inputs for tensors than the module does")
        #: What they are.
        self.of_tensors = [leaf for leaf in self._leaves if isinstance(leaf, TensorLeaf)]
        #: For each tensor its position and what suits it at a glance: a call takes microseconds.
        self._as_made = [
            (i, x.dtype, x.closed_shape) for i, x in zip(self.tensors, self.of_tensors, strict=True)
        ]
        self._constants = [(i, x) for i, x in enumerate(self._leaves) if i not in self.tensors]
        #: Whether there are open dimensions.
        self.open = any(leaf.closed_shape is None for leaf in self.of_tensors)
        #: By symbol, the range of sizes that the program was made for, if that has an end.
        self.ranges = {
            symbol: (max(1, int(r.lower)), int(r.upper))
            for symbol, r in program.range_constraints.items()
            if r.upper.is_Integer
        }
        self.not_one: set[Extent] = set()  #: symbols that may not be 1
        #: What the program assumes of their sizes.
        self._guards = getattr(program.module(), "_guards_fn", None) if self.open else None
        #: The leaves as positions among the arguments, by the number of those by position and the names of others.
        self._orders: dict[tuple[Any, ...], list[int]] = {}
        self._sizes: dict[tuple[Any, ...], dict[Any, int]] = {}  #: of symbols, by the shapes of inputs
        opened = [d for leaf in self.of_tensors for d in leaf.shape if not isinstance(d, int)]
        for d in opened:
            if alone := next((s for s in d.free_symbols if s not in opened), None):
                raise Declined(f"a dimension is {d}, and none is {alone} alone: take Dim.AUTO for it")
        try:
            self.sizes(leaves)
            self.leaves(*example)
        except OtherCall as e:  # such as a tensor that is more than its elements
            raise Declined(str(e)) from None

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call. Raises `OtherCall` if the program was not made for it, TypeError for arguments that
        the module does not take."""
        form = (len(args), *kwargs)
        order = self._orders.get(form)
        if order is None:
            leaves = self._flattened(args, kwargs)
            self._learn(form, (*args, *kwargs.values()), leaves)
        else:
            given = (*args, *kwargs.values())
            leaves = [given[i] for i in order]
        for i, dtype, shape in self._as_made:
            x = leaves[i]
            if x.__class__ is not torch.Tensor or x.dtype is not dtype or x.shape != shape or _special(x):
                self._check(x, self._leaves[i], i)
        for i, expected in self._constants:
            if not is_same(leaves[i], expected):
                raise OtherCall(f"input {self.names[i]} is {leaves[i]!r}, and it was made for {expected!r}")
        return leaves

    def _flattened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        leaves: list[Any]
        leaves, spec = pytree.tree_flatten((args, kwargs))
        for form in (by_position, without_defaults):
            if spec == self._spec:
                break
            bound = form(self._forward, args, kwargs)
            leaves, spec = pytree.tree_flatten((bound.args, bound.kwargs))
        if spec != self._spec:
            raise OtherCall("the inputs have another structure than those that it was made for")
        return leaves

    def _learn(self, form: tuple[Any, ...], given: tuple[Any, ...], leaves: list[Any]) -> None:
        """Keeps the order of leaves in calls of a form, where each argument is a tensor, and another one: then it is
        the same in all calls of the form."""
        position = {id(x): i for i, x in enumerate(given) if isinstance(x, torch.Tensor)}
        if len(position) == len(given) == len(leaves):
            self._orders[form] = [position[id(x)] for x in leaves]

    def _check(self, x: Any, expected: TensorLeaf, i: int) -> None:
        """Raises `OtherCall` for what is no such tensor in the memory of the CPU."""
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            raise OtherCall(f"input {self.names[i]} is a {type(x).__name__}, and it was made for tensors")
        fits = x.dtype == expected.dtype and (
            x.shape == expected.shape or (self.open and len(x.shape) == len(expected.shape))
        )
        if not fits:
            found = _described(x.dtype, x.shape)
            raise OtherCall(f"input {self.names[i]} is {found}, and it was made for {expected}")
        if special := _special(x):
            raise OtherCall(f"input {self.names[i]} {special}")

    def sizes(self, leaves: Sequence[Any]) -> dict[Any, int]:
        """The sizes of the program's symbols in a call. Raises `OtherCall` for sizes that it was not made for."""
        if not self.open:
            return {}
        key = tuple(leaves[i].shape for i in self.tensors)
        if key not in self._sizes:
            if len(self._sizes) == MOST_KNOWN:
                self._sizes.clear()
            self._sizes[key] = self._solved(leaves)
        return self._sizes[key]

    def place(self, name: str, axis: int) -> tuple[int, Extent]:
        """An input by its name, and the symbol of one of its dimensions: the position among the leaves, and the
        symbol. Raises ValueError if there is no such open dimension."""
        known = {self.names[i]: i for i in self.tensors}
        if name not in known:
            raise ValueError(f"sizes: there is no input {name!r}; inputs are {', '.join(known)}")
        shape = self._leaves[known[name]].shape
        if not isinstance(axis, int) or not 0 <= axis < len(shape):
            raise ValueError(f"sizes: input {name} has no dimension {axis!r}")
        if not getattr(shape[axis], "is_symbol", False):
            raise ValueError(f"sizes: dimension {axis} of {name} is not open: name it in dynamic_shapes")
        return known[name], shape[axis]

    def resized(
        self, leaves: Sequence[Any], also: Mapping[Extent, Sequence[int]] | None = None
    ) -> Iterator[list[Any]]:
        """For each open dimension the shapes of the tensors in a call where it has another size that the program was
        made for, and those where it has one of the sizes ``also`` wanted; None for leaves that are no tensors."""
        here = self.sizes(leaves)
        wanted = [(symbol, n) for symbol, sizes in (also or {}).items() for n in sizes]
        for symbol, others in [
            *((symbol, (n + 1, 2 * n, n - 1)) for symbol, n in here.items()),
            *((symbol, (n,)) for symbol, n in wanted),
        ]:
            found = (self.resized_to(leaves, symbol, n) for n in others)
            yield from islice((shapes for shapes in found if shapes is not None), 1)

    def resized_to(self, leaves: Sequence[Any], symbol: Extent, n: int) -> list[Any] | None:
        """The shapes of the tensors in a call where one dimension has another size; None if the program was not made
        for it. None for leaves that are no tensors."""
        there = {**self.sizes(leaves), symbol: n}
        shapes = [
            [size_of(d, there) for d in leaf.shape] if isinstance(leaf, TensorLeaf) else None
            for leaf in self._leaves
        ]
        made = [
            x if s is None else torch.empty(s, dtype=x.dtype) for x, s in zip(leaves, shapes, strict=True)
        ]
        try:
            self.sizes(made)
        except (OtherCall, RuntimeError):  # a size below 0
            return None
        return shapes

    def leave_out_one(self, symbol: Extent) -> None:
        """Calls where a dimension has size 1 are not for the program: `torch.export` takes sizes for others than 1,
        also where ``dynamic_shapes`` have 1 in their range."""
        self.not_one.add(symbol)
        self._sizes.clear()

    def _solved(self, leaves: Sequence[Any]) -> dict[Any, int]:
        pairs = [
            (d, n) for i in self.tensors for d, n in zip(self._leaves[i].shape, leaves[i].shape, strict=True)
        ]
        found = {d: n for d, n in pairs if getattr(d, "is_symbol", False)}
        wrong = [n for d, n in pairs if size_of(d, found) != n]
        wrong += [
            found[d] for d, (low, high) in self.ranges.items() if d in found and not low <= found[d] <= high
        ]
        wrong += [1 for d in self.not_one if found.get(d) == 1]
        wrong += [
            n for n in found.values() if n == 0
        ]  # what a module does with nothing is not seen by torch.export
        try:
            if self._guards is not None and not wrong:
                self._guards(*leaves)
        except Exception as e:
            raise OtherCall(f"it was not made for such sizes: {e}") from None
        if wrong:
            raise OtherCall(f"it was not made for such sizes: {', '.join(map(str, wrong))}")
        return found


class CallOutputs:
    """The outputs of a program: computed tensors, inputs that are passed on, constants, in their structure."""

    def __init__(self, program: torch.export.ExportedProgram, inputs: CallInputs) -> None:
        self._spec = program.call_spec.out_spec
        (results,) = program.graph.output_node().args
        self.computed: list[TensorLeaf] = []
        #: Of each: the element types that it is computed in from the inputs.
        self.computed_in: list[frozenset[Any]] = []
        #: Where the computed tensors lie, if some share memory.
        self.places: Sequence[OutputPlace | None] | None = None
        #: By position: where the leaf comes from, and its number there, or its value.
        self._sources: list[tuple[str, Any]] = []
        self._first: dict[Any, int] = {}  #: node -> the position at which it is an output first
        number: dict[Any, int] = {}
        types = _computed_in(program, inputs.names)
        for i, node in enumerate(results):
            if not isinstance(node, torch.fx.Node):
                self._sources.append(("constant", node))
            elif node.op == "placeholder" and node.name in inputs.names:
                self._sources.append(("input", inputs.names.index(node.name)))
            else:
                if node not in number:
                    if not isinstance(node.meta["val"], torch.Tensor):
                        raise Declined("an output is a number that depends on the inputs")
                    number[node], self._first[node] = len(number), i
                    self.computed.append(TensorLeaf.of(node.meta["val"]))
                    self.computed_in.append(types.get(node, frozenset()))
                self._sources.append(("computed", number[node]))
        if not self.computed:
            raise Declined("it computes no tensor")
        #: What puts leaves into the structure. A leaf alone, a list or a tuple takes no walk over it.
        known: dict[Any, Callable[[list[Any]], Any]] = {
            pytree.tree_structure(0): itemgetter(0),
            pytree.tree_structure([0] * len(results)): list,
            pytree.tree_structure((0,) * len(results)): tuple,
        }
        self._built = known.get(self._spec) or partial(pytree.tree_unflatten, treespec=self._spec)

    def asked(self, position: int, node: Any) -> bool:
        """Whether the model of the program has to have the output at a position."""
        return self._first.get(node) == position

    def structured(self, computed: Sequence[torch.Tensor], leaves: Sequence[Any]) -> Any:
        """The outputs of a call, of whose inputs these are the leaves."""
        if self.places is not None:
            computed = placed(computed, self.places)
        from_where = {"computed": computed, "input": leaves}
        found = [value if kind == "constant" else from_where[kind][value] for kind, value in self._sources]
        return self._built(found)

    def of_structured(self, outputs: Any, given: Sequence[Any]) -> list[torch.Tensor]:
        """The computed tensors in outputs of a call with the leaves ``given``. Raises `Declined` if they have another
        structure, other constants, or other tensors than dense ones, or if an input that is passed on is a copy."""
        leaves, spec = pytree.tree_flatten(outputs)
        if spec != self._spec:
            raise Declined("its outputs have another structure than torch.export sees")
        if pytree.tree_structure(self._built(leaves)) != spec:  # PyTorch makes a tuple of a torch.Size
            raise Declined("its outputs have a structure that PyTorch does not build from their parts")
        for k, (leaf, (kind, source)) in enumerate(zip(leaves, self._sources, strict=True)):
            if kind == "input" and leaf is not given[source]:
                raise Declined("an output is an input or a copy of it, by how that lies in memory")
            if kind == "constant" and not is_same(leaf, source):
                raise Declined(f"output {k} is {leaf!r}, and torch.export takes {source!r} for it")
            if kind == "computed" and (type(leaf) is not torch.Tensor or leaf.layout is not torch.strided):
                raise Declined(f"output {k} is not a dense tensor")
        found = {
            value: leaf
            for leaf, (kind, value) in zip(leaves, self._sources, strict=True)
            if kind == "computed"
        }
        return [found[k] for k in range(len(self.computed))]


def _computed_in(
    program: torch.export.ExportedProgram, inputs: Sequence[str]
) -> dict[torch.fx.Node, frozenset[Any]]:
    """The element types that nodes are computed in from inputs of these names; nothing for those that depend on
    constants alone."""
    found: dict[torch.fx.Node, frozenset[Any]] = {}
    for node in program.graph.nodes:
        before = [found[i] for i in node.all_input_nodes if i in found]
        if node.op == "placeholder" and node.name in inputs:
            found[node] = frozenset()
        elif before:
            values = pytree.tree_leaves(node.meta.get("val"))
            own = {x.dtype for x in values if isinstance(x, torch.Tensor)}
            found[node] = frozenset(own).union(*before)
    return found


def extents(sizes: Sequence[Any]) -> tuple[Extent, ...]:
    """The sizes of a program, as numbers and expressions of its symbols."""
    return tuple(n if isinstance(n, int) else n.node.expr for n in sizes)


def size_of(extent: Extent, sizes: dict[Any, int]) -> int | None:
    """A dimension's size, given those of symbols; None if it depends on others."""
    if isinstance(extent, int):
        return extent
    if extent in sizes:
        return sizes[extent]
    found = extent.subs(sizes)
    return int(found) if found.is_number else None


def _special(x: torch.Tensor) -> str:
    """Why a tensor's elements do not lie in the CPU's memory as they are, or are not all that is asked for; empty if
    they do and are."""
    if not x.is_cpu or x.layout is not torch.strided or x.is_neg() or x._is_zerotensor():
        return "is not a dense tensor on the CPU"
    return "has to be given a gradient" if x.requires_grad and torch.is_grad_enabled() else ""


def _described(dtype: Any, shape: Sequence[Extent]) -> str:
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
