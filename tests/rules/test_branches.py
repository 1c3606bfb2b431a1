"""Networks that are trained with branches become the ones that are run: one convolution for each block."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

import tensat_dl

pytestmark = pytest.mark.sampled(4)

#: The channels of all images.
C = 8


def norm(of: str, i: int) -> tuple[str, str]:
    """Its weights, and the normalisation of an expression."""
    weights = "\n".join(f"weight {name}{i} : f32[{C}]" for name in "stmv")
    return weights, f"batchnorm({of}, s{i}, t{i}, m{i}, v{i})"


def conv(
    i: int, size: int, pads: str, groups: int = 1, stride: int = 1, normed: bool = True
) -> tuple[str, str]:
    kernel = f"weight w{i} : f32[{C}, {C // groups}, {size}, {size}]"
    text = f"conv2d(x, w{i}; stride = {stride}, pads = {pads})"
    if not normed:
        return kernel, text
    weights, text = norm(text, i)
    return f"{kernel}\n{weights}", text


def operators(*branches: tuple[str, str]) -> Mapping[str, int]:
    """Those that the answer computes at run time, for the sum of branches of images."""
    weights = "\n".join(w for w, _ in branches)
    total = " + ".join(branch for _, branch in branches)
    text = f"graph g {{\ninput x : f32[1, {C}, 12, 12]\n{weights}\noutput relu({total})\n}}\n"
    result = tensat_dl.optimize(tensat_dl.load(text=text, rules=["standard"]))
    graph = result.after.graph
    given = {i for i, n in enumerate(graph.nodes) if n.op == "input"}
    for i, node in enumerate(graph.nodes):
        if given.intersection(node.inputs):
            given.add(i)
    ops = [graph.nodes[i].op for i in sorted(given) if graph.nodes[i].op != "input"]
    return {op: ops.count(op) for op in ops}


ONE = {"conv2d": 1}
REPVGG = (conv(1, 1, "0"), conv(2, 3, "1"), norm("x", 3))


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_a_block_of_repvgg(order: tuple[int, ...]) -> None:
    assert operators(*(REPVGG[i] for i in order)) == ONE


@pytest.mark.parametrize(
    "branches",
    [
        (conv(1, 1, "0", stride=2), conv(2, 3, "1", stride=2)),
        (conv(1, 1, "0", groups=8), conv(2, 3, "1", groups=8), norm("x", 3)),
        (conv(1, 3, "1", groups=8), conv(2, 7, "3", groups=8)),
        (conv(1, 3, "1"), conv(2, 3, "1"), conv(3, 3, "1")),
        (conv(1, 2, "[1, 1, 0, 0]"), conv(2, 3, "1")),
        (conv(1, 3, "1", normed=False), norm("x", 2)),
        (conv(1, 1, "0", normed=False), conv(2, 3, "1", normed=False), ("", "x")),
        (conv(1, 3, "1"), ("", "x")),
        (conv(1, 1, "0", groups=2), conv(2, 3, "1")),
    ],
    ids=["stride", "depthwise", "large", "equal", "even", "plain", "copy", "residual", "groups"],
)
def test_other_branches(branches: tuple[tuple[str, str], ...]) -> None:
    assert operators(*branches) == ONE


@pytest.mark.parametrize(
    "branches",
    [
        (conv(1, 1, "1"), conv(2, 3, "[0, 0, 4, 4]")),
        (conv(1, 3, "[0, 0, 2, 2]"), norm("x", 2)),
        (conv(1, 3, "1", groups=8), conv(2, 3, "1"), ("", "sigmoid(x)")),
    ],
    ids=["places", "shifted", "function"],
)
def test_what_looks_alike(branches: tuple[tuple[str, str], ...]) -> None:
    """Windows that begin elsewhere, and a branch that is not linear."""
    assert operators(*branches) != ONE
