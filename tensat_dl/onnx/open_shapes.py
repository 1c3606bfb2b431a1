"""Shapes of a graph, which are known, in a model some of whose dimensions are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tensat_dl.ir.graph import Node


def open_shape(x: Node, result: Node, elsewhere: Sequence[Mapping[str, tuple[int, ...]]]) -> list[int]:
    """The operand of a Reshape from ``x`` to ``result`` that fits other sizes too, as far as one can: 0 copies a
    dimension, and -1 is what is left.

    ``elsewhere`` has the shapes of values at other sizes. The name of a node is that of a value that it equals.
    """
    old, new = x.type.shape, result.type.shape
    target = list(new)
    known = [(there.get(x.name, ()), there[result.name]) for there in elsewhere if result.name in there]
    if known:
        for i, here in enumerate(new):
            if all(there[i] == here for _, there in known):
                continue
            same = i < len(old) and old[i] == here
            if same and all(len(before) == len(old) and before[i] == there[i] for before, there in known):
                target[i] = 0
            elif -1 not in target:
                target[i] = -1
        return target
    # A shape that only a rule has made. Mostly leading dimensions are open.
    stay = 0
    while stay < min(len(new), len(old)) and new[stay] == old[stay]:
        target[stay] = 0
        stay += 1
    for i in range(stay, len(new)):
        rest = prod(new[:i]) * prod(new[i + 1 :])
        if all(prod(there[x.name]) % rest == 0 for there in elsewhere if x.name in there):
            target[i] = -1
            break
    return target
