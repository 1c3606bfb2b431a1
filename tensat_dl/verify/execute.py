"""Runs a graph in NumPy, keeping no value longer than it is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensat_dl.core.graph import Graph, Node
from tensat_dl.ops.semantics.types import Array, Semantics, widened


class ExecutionError(ValueError):
    """A node could not be computed, or its value has another shape than the graph declares."""


def execute(
    graph: Graph,
    values: Mapping[str, Array],
    semantics: Mapping[str, Semantics],
    watch: Callable[[Array], None] = lambda _: None,
) -> list[Array]:
    """The outputs of a graph, in order.

    ``values`` holds the inputs and weights by name. Operators that ``semantics`` lacks are computed by
    ``surrogate``. Each value is dropped after its last use, so that the memory taken beyond ``values`` is
    that of the tensors alive at one time. A node that no output needs is not computed. ``watch`` sees each value.
    """
    last_use = last_uses(graph)
    dying: list[list[int]] = [[] for _ in range(len(graph.nodes) + 1)]
    for i, user in last_use.items():
        dying[user].append(i)

    computed: dict[int, tuple[Array, ...]] = {}
    for i, node in enumerate(graph.nodes):
        if i in last_use:
            computed[i] = _checked(i, node, _apply(graph, node, computed, values, semantics))
            for value in computed[i]:
                watch(value)
            for j in dying[i]:
                del computed[j]
    return [_only(computed[i]) for _, i in graph.outputs]


def surrogates(graph: Graph, semantics: Mapping[str, Semantics]) -> tuple[str, ...]:
    """The operators of a graph that ``execute`` would replace by a surrogate, sorted."""
    given = {"input", "weight", "proj", *semantics}
    return tuple(sorted({node.op for node in graph.nodes if node.op not in given}))


def last_uses(graph: Graph) -> dict[int, int]:
    """For each node that an output needs, the last node that takes it; outputs are taken after every node."""
    last = {i: len(graph.nodes) for _, i in graph.outputs}
    for i in range(len(graph.nodes) - 1, -1, -1):
        if i in last:
            for j in graph.nodes[i].inputs:
                last.setdefault(j, i)
    return last


def widening(graph: Graph, node: Node) -> bool:
    """Whether a node is a cast of integers that changes none."""
    return node.op == "cast" and widened(graph.nodes[node.inputs[0]].types[0].dtype, node.types[0].dtype)


def _apply(
    graph: Graph,
    node: Node,
    computed: Mapping[int, tuple[Array, ...]],
    values: Mapping[str, Array],
    semantics: Mapping[str, Semantics],
) -> tuple[Array, ...]:
    if node.op in ("input", "weight"):
        name = node.attr("name")
        if name not in values:
            raise ExecutionError(f"no value is given for {node.op} {name}")
        return (values[str(name)],)
    if node.op == "proj":
        index = node.attr("index")
        assert isinstance(index, int)
        return (computed[node.inputs[0]][index],)
    operands = [_only(computed[j]) for j in node.inputs]
    if widening(graph, node):  # also what a sum made too large
        return (operands[0],)
    function = semantics.get(node.op)
    if function is None:
        return surrogate(node, operands)
    try:
        return (function(operands, dict(node.attrs)),)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ExecutionError(f"{node.op} cannot be computed: {error}") from error


def _checked(i: int, node: Node, results: tuple[Array, ...]) -> tuple[Array, ...]:
    """The results of node ``i``, which have the declared shapes."""
    shapes = [result.shape for result in results]
    if shapes != [declared.shape for declared in node.types]:
        raise ExecutionError(
            f"node {i} ({' '.join(filter(None, (node.op, node.name)))}) is declared "
            f"{', '.join(map(str, node.types))} but its value has shape {', '.join(map(str, shapes))}"
        )
    return results


def _only(results: tuple[Array, ...]) -> Array:
    if len(results) != 1:
        raise ExecutionError(f"a node with {len(results)} outputs is used without proj")
    return results[0]


#: How many numbers a surrogate boils each operand down to.
FEATURES = 4


def surrogate(node: Node, operands: Sequence[Array]) -> tuple[Array, ...]:
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
        directions = _keyed(key, "operand", position).uniform(-1.0, 1.0, (FEATURES, flat.size))
        features.extend(np.arcsinh(directions @ flat / np.sqrt(flat.size)))
    results = []
    for k, output in enumerate(node.types):
        generator = _keyed(key, "output", k)
        value = np.zeros(output.shape)
        for feature in features or [1.0]:
            # within 2, not 1, or values would fade in a chain of surrogates
            value += feature * generator.uniform(-2.0, 2.0, output.shape)
        results.append(value)
    return tuple(results)


def _keyed(*key: str | int) -> np.random.Generator:
    """A generator that depends on nothing but the key: not on the process, the platform, earlier calls."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
