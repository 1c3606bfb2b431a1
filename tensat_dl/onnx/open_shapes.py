"""Shapes of a graph, which are known, in a model some of whose dimensions are open."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tensat_dl.ir.graph import Node


def open_shape(x: Node, result: Node, elsewhere: Mapping[str, tuple[int, ...]]) -> list[int]:
    """The operand of a Reshape from ``x`` to ``result`` that fits other sizes too, as far as one can: 0 copies a
    dimension, and -1 is what is left.

    ``elsewhere`` has the shapes of values at other sizes. The name of a node is that of a value that it equals.
    """
    old, new = x.type.shape, result.type.shape
    old_there, new_there = elsewhere.get(x.name), elsewhere.get(result.name)
    target = list(new)
    if new_there is not None and len(new_there) == len(new):
        copied = len(old) if old_there is not None and len(old_there) == len(old) else 0
        for i, (here, there) in enumerate(zip(new, new_there, strict=True)):
            if here == there:
                continue
            if old_there is not None and i < copied and (old[i], old_there[i]) == (here, there):
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
        if old_there is None or prod(old_there) % rest == 0:
            target[i] = -1
            break
    return target
