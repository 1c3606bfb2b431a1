"""Runs a graph, keeps each value until its last use only, and computes the memory that this takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from tensat_dl.core.graph import Graph, Node, needed
from tensat_dl.ops.semantics.arrays import Array, Semantics, widened
from tensat_dl.verify.keyed import generator
from tensat_dl.verify.late import Late


class Shaped(Protocol):
    """A tensor in some kind of numbers."""

    @property
    def shape(self) -> tuple[int, ...]: ...


V = TypeVar("V", bound=Shaped)
Value: TypeAlias = Array | Late


class ExecutionError(ValueError):
    """A node could not be computed, or its value has another shape than the graph declares."""


def execute(
    graph: Graph,
    values: Mapping[str, Value],
    semantics: Mapping[str, Semantics],
    watch: Callable[[Value], None] = lambda _: None,
    computed: dict[int, tuple[Value, ...]] | None = None,
) -> list[Array]:
    """The outputs of a graph in NumPy, in order. Operators that ``semantics`` lacks are computed by ``surrogate``. If
    ``values`` has late weights, the others take late matrices. ``watch`` sees each value. See `outputs`, also for the
    errors and for what is ``computed``."""

    def apply(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
        function = semantics.get(node.op)
        if function is None:
            return surrogate(node, operands)
        try:
            return (function(*operands, **dict(node.attrs)),)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ExecutionError(f"{node.op} cannot be computed: {error}") from error

    return [np.asarray(value) for value in outputs(graph, values, apply, watch, computed)]


def outputs(
    graph: Graph,
    values: Mapping[str, V],
    apply: Callable[[Node, Sequence[V]], tuple[V, ...]],
    watch: Callable[[V], None] = lambda _: None,
    computed: dict[int, tuple[V, ...]] | None = None,
) -> list[V]:
    """The outputs of a graph, in order, in any kind of numbers.

    ``values`` holds the inputs and weights by name. ``apply`` computes the operators, ``proj`` and casts that change
    nothing excepted. Each value is dropped after its last use, so that the memory taken beyond ``values`` is that of
    the tensors alive at one time. A node that no output needs is not computed. ``computed`` has the results of nodes
    that are known, and in the end, or where ``watch`` raises an error, those that are alive. Raises `ExecutionError`
    where a value is not given, or has another shape than the graph declares.
    """
    computed = {} if computed is None else computed
    last_use = last_uses(graph, computed)
    ends = dying(last_use)
    for j in computed.keys() - last_use.keys():
        del computed[j]
    for i, node in enumerate(graph.nodes):
        if i not in last_use or i in computed:
            continue
        if node.op in ("input", "weight"):
            name = str(node.attr("name"))
            if name not in values:
                raise ExecutionError(f"no value is given for {node.op} {name}")
            computed[i] = (values[name],)
        elif node.op == "proj":
            index = node.attr("index")
            assert isinstance(index, int)
            computed[i] = (computed[node.inputs[0]][index],)
        else:
            operands = [_only(computed[j]) for j in node.inputs]
            # what is cast to a wider type stays as it is, also what a sum made too large
            computed[i] = (operands[0],) if _widening(graph, node) else apply(node, operands)
        _check_shapes(i, node, computed[i])
        for value in computed[i]:
            watch(value)
        for j in ends.get(i, ()):
            del computed[j]
    return [_only(computed[i]) for _, i in graph.outputs]


def surrogates(graph: Graph, semantics: Mapping[str, Semantics]) -> tuple[str, ...]:
    """The operators of a graph that ``execute`` would replace by a surrogate, sorted."""
    given = {"input", "weight", "proj", *semantics}
    return tuple(sorted({node.op for node in graph.nodes if node.op not in given}))


def last_uses(graph: Graph, known: Container[int] = ()) -> dict[int, int]:
    """For each node that an output needs, where the results of some nodes are ``known``, the last node that takes it;
    outputs are taken after every node."""
    live = needed(graph.nodes, (i for _, i in graph.outputs), known)
    last = {j: i for i in sorted(live) if i not in known for j in graph.nodes[i].inputs}
    return last | {i: len(graph.nodes) for _, i in graph.outputs}


def dying(last_use: Mapping[int, int]) -> dict[int, list[int]]:
    """By node, the nodes that are not needed after it."""
    ends: dict[int, list[int]] = {}
    for i, user in last_use.items():
        ends.setdefault(user, []).append(i)
    return ends


def _widening(graph: Graph, node: Node) -> bool:
    """Whether a node is a cast of integers that changes none."""
    return node.op == "cast" and widened(graph.nodes[node.inputs[0]].types[0].dtype, node.types[0].dtype)


def _check_shapes(i: int, node: Node, results: Sequence[Shaped]) -> None:
    """Raises `ExecutionError` unless the results of node ``i`` have the declared shapes."""
    shapes = [result.shape for result in results]
    if shapes != [declared.shape for declared in node.types]:
        raise ExecutionError(
            f"node {i} ({' '.join(filter(None, (node.op, node.name)))}) is declared "
            f"{', '.join(map(str, node.types))} but its value has shape {', '.join(map(str, shapes))}"
        )


def _only(results: tuple[V, ...]) -> V:
    if len(results) != 1:
        raise ExecutionError(f"a node with {len(results)} outputs is used without proj")
    return results[0]


# ---- memory -----------------------------------------------------------------------------------------------


def memory_needed(graph: Graph) -> int:
    """The least number of bytes that running a graph in float64 takes: inputs and weights are held all the time,
    other values from when they are computed until their last use. Operators' own temporary values come on top."""

    def size(nodes: Iterable[int]) -> int:
        return sum(8 * t.size for i in nodes for t in graph.nodes[i].types)

    held = {*graph.inputs, *graph.weights}
    last_use = last_uses(graph)
    ends = dying(last_use)
    live = peak = size(held)
    for i in sorted(last_use.keys() - held):
        live += size((i,))
        peak = max(peak, live)
        live -= size(j for j in ends.get(i, ()) if j not in held)
    return peak


def held_values(graph: Graph) -> int:
    """Bytes of all values of a graph in float64, held all the time."""
    return sum(8 * t.size for i in last_uses(graph) for t in graph.nodes[i].types)


def available_memory() -> int | None:
    """Bytes that this process can still take, or None where the system does not say."""
    found = [b for b in (_free_memory(), _left_in_control_group()) if b is not None]
    return min(found, default=None)


def _free_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return None
    except OSError:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return None


def _left_in_control_group() -> int | None:
    """Bytes that a container's limit leaves."""
    folder = Path("/sys/fs/cgroup")
    try:
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # no such limit
        return None


# ---- surrogates -------------------------------------------------------------------------------------------

#: How many numbers a surrogate boils each operand down to.
FEATURES = 4


def surrogate(node: Node, operands: Sequence[Value]) -> tuple[Array, ...]:
    """A stand-in for an operator that is known by its types alone: float64 arrays of the node's types.

    The same operator with the same attributes on the same operands gives the same values; another operand,
    another order of operands or another attribute gives other values. It is smooth, because graphs that
    agree up to rounding must give results that agree up to rounding, which a hash would not. Each operand is
    projected on ``FEATURES`` random directions f, which take in every element; an output is a random linear
    combination of the asinh(f). That is f itself near zero, so that small operands are not lost beside a
    constant, and like a logarithm far away, so that a deep graph stays in range without ever flattening out.
    Integer and boolean outputs are real numbers too: a function that takes whole values only has jumps.
    """
    key = repr((node.op, sorted(node.attrs), [t.shape for t in node.types]))
    features: list[float] = []
    for position, operand in enumerate(operands):
        flat = np.asarray(operand, np.float64).reshape(-1)
        directions = generator(key, "operand", position).uniform(-1.0, 1.0, (FEATURES, flat.size))
        features.extend(np.arcsinh(directions @ flat / np.sqrt(flat.size)))
    results = []
    for k, output in enumerate(node.types):
        random = generator(key, "output", k)
        value = np.zeros(output.shape)
        for feature in features or [1.0]:
            # within 2, not 1, or values would fade in a chain of surrogates
            value += feature * random.uniform(-2.0, 2.0, output.shape)
        results.append(value)
    return tuple(results)
