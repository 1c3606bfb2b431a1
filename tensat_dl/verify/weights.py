"""Draws values for the inputs and weights of graphs, such that errors show in the outputs.

A value depends on the tensor's name, its type, the seed and how the first graph that has it uses it. So
graphs that share a name share its value, whatever the order of their nodes. The distributions keep
activations near 1 through many layers: with plain normal weights a deep network overflows or vanishes, and a
vanished output hides every error.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from tensat_dl.beside import spare_cores
from tensat_dl.core.graph import Graph, Node, TensorType
from tensat_dl.ops.semantics.arrays import Array, computed_in
from tensat_dl.ops.traits import positive_operands, traits
from tensat_dl.verify.keyed import generator_of

#: Tensors of more normal numbers get uniform ones of the same mean and deviation, which take a tenth of the time.
LARGE = 1 << 16
#: These are drawn in blocks of so many: all cores draw them, and a cache holds one.
BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class Distribution:
    """Normal, uniform of the same mean and deviation for large tensors, or, where a tensor must be ``positive``,
    uniform over [1/2, 3/2]."""

    mean: float = 0.0
    std: float = 1.0
    positive: bool = False


POSITIVE = Distribution(positive=True)
#: By what the use of a weight as an operand says of it.
DISTRIBUTIONS = {"near one": Distribution(1.0, 0.1), "near zero": Distribution(0.0, 0.1)}


def draw_values(
    graphs: Iterable[Graph], seed: int, known: Mapping[str, Array], without: Container[str] = ()
) -> dict[str, Array]:
    """By name, values for every input and weight, ``without`` some: float64, int64 for integer types, bool.

    Values in ``known`` are converted to these types, the rest is drawn. Where graphs share a name, the first that has
    it decides the distribution. Raises ``ValueError`` where two tensors of one name have different types.
    """
    types: dict[str, TensorType] = {}
    values: dict[str, Array] = {}
    drawn: dict[str, Distribution] = {}
    for graph in graphs:
        distributions = choose_distributions(graph)
        for i in (*graph.inputs, *graph.weights):
            node = graph.nodes[i]
            name = str(node.attr("name"))
            former = types.setdefault(name, node.type)
            if former != node.type:
                raise ValueError(f"{name} is {former} in one place and {node.type} in another")
            if name in known:
                values[name] = np.asarray(known[name]).astype(computed_in(node.type.dtype))
            elif name not in without:
                drawn.setdefault(name, distributions[i])
    return values | {name: draw(name, types[name], d, seed) for name, d in drawn.items()}


def choose_distributions(graph: Graph) -> dict[int, Distribution]:
    """A distribution for each input and weight of a graph, by node, from how the graph uses it."""
    uses = _uses(graph)
    positive = _positive(graph)
    chosen = {i: Distribution() for i in graph.inputs}
    for i in graph.weights:
        by_use = (DISTRIBUTIONS.get(traits(op).weights.get(position, "")) for op, position in uses[i])
        chosen[i] = next(filter(None, by_use), None) or _by_shape(graph.nodes[i].type, uses[i])
    return {i: POSITIVE if positive[i] else distribution for i, distribution in chosen.items()}


def draw(name: str, type_: TensorType, distribution: Distribution, seed: int) -> Array:
    """One value. It is the same on every platform and in every process."""
    key = drawn_by(name, type_, seed)
    generator = generator_of(key)
    computed = computed_in(type_.dtype)
    if computed is np.bool_:
        return np.asarray(generator.integers(0, 2, type_.shape)).astype(np.bool_)
    if computed is np.int64:
        least = 1 if distribution.positive else 0 if type_.dtype == "u8" else -4
        return np.asarray(generator.integers(least, 5, type_.shape))
    if distribution.positive:
        return np.asarray(generator.uniform(0.5, 1.5, type_.shape))
    if prod(type_.shape) > LARGE:
        return _uniform(key, type_.shape, distribution)
    value = np.asarray(generator.standard_normal(type_.shape))
    if distribution.std != 1:
        value *= distribution.std
    if distribution.mean != 0:
        value += distribution.mean
    return value


def drawn_by(name: str, type_: TensorType, seed: int) -> str:
    """What the numbers of a tensor depend on, beside their distribution."""
    return f"{seed} {name} {type_}"


def _uniform(key: str, shape: tuple[int, ...], distribution: Distribution) -> Array:
    """Uniform numbers of a mean and a standard deviation, the same on any number of cores."""
    value = np.empty(shape)
    flat = value.reshape(-1)

    def fill(start: int) -> None:
        draw_block(flat[start : start + BLOCK], start, key, distribution)

    starts = range(0, flat.size, BLOCK)
    if len(starts) == 1 or spare_cores() == 1:
        for start in starts:
            fill(start)
    else:
        with ThreadPoolExecutor(spare_cores()) as threads:  # NumPy lets other threads run while it draws
            list(threads.map(fill, starts))
    return value


def draw_block(block: Array, start: int, key: str, distribution: Distribution) -> None:
    """Draws the block of a large tensor that begins at an element: numbers of 16 bits, which take a third of the time
    that numbers of 53 bits take."""
    bits = generator_of(f"{key} {start}").bit_generator.random_raw(-(-block.size // 4))
    levels = bits.astype("<u8", copy=False).view("<i2")[: block.size]
    # the mean of the levels is -1/2, and their standard deviation 2^16 / sqrt(12)
    scale = sqrt(12) * distribution.std / 2**16
    np.multiply(levels, scale, out=block)
    block += distribution.mean + scale / 2


def _uses(graph: Graph) -> list[list[tuple[str, int]]]:
    """For each node the (operator, argument position) pairs that take it, in order."""
    uses: list[list[tuple[str, int]]] = [[] for _ in graph.nodes]
    for node in graph.nodes:
        for position, i in enumerate(node.inputs):
            uses[i].append((node.op, position))
    return uses


def _positive(graph: Graph) -> list[bool]:
    """For each node whether it has to be positive, as far as positive operands see to it.

    A divisor counts only if it is computed from weights, or whole: real divisors are seldom zero, and
    positive inputs would hide what an operator does to negative ones.
    """
    constant = graph.weights_only()
    needed = [False] * len(graph.nodes)
    for node in reversed(range(len(graph.nodes))):
        n = graph.nodes[node]
        for position, i in enumerate(n.inputs):
            divisor = (n.op, position) == ("ewdiv", 1) and (constant[i] or _whole(graph.nodes[i]))
            passed_on = needed[node] and traits(n.op).keeps_positive and not _square(n)
            if position in positive_operands(n.op, n.attrs) or divisor or passed_on:
                needed[i] = True
    return needed


def _square(node: Node) -> bool:
    """x * x is not negative, whatever x is."""
    if node.op == "power":
        return float(str(node.attr("exponent"))) % 2 == 0
    return node.op == "ewmul" and node.inputs[0] == node.inputs[1]


def _whole(node: Node) -> bool:
    return computed_in(node.types[0].dtype) is np.int64


def _by_shape(type_: TensorType, uses: list[tuple[str, int]]) -> Distribution:
    """He's initialisation, std = sqrt(2 / fan in), for products; vectors are biases, scalars factors."""
    shape = type_.shape
    if type_.rank == 0:
        return DISTRIBUTIONS["near one"]
    if type_.rank == 1:
        return DISTRIBUTIONS["near zero"]
    if ("matmul", 0) in uses:
        fan_in = shape[-1]
    elif type_.rank == 4 and ("matmul", 1) not in uses:
        fan_in = prod(shape[1:])
    else:
        fan_in = shape[-2]
    return Distribution(0.0, sqrt(2 / fan_in))
