"""What is wrong with ``dynamic_shapes`` that `torch.export` does not say clearly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def check_dynamic_shapes(arguments: Mapping[str, Any], shapes: Any) -> None:
    """Raises ValueError for dimensions that the arguments do not have, and for sizes that are not theirs. Other forms
    are for `torch.export` to see."""
    if not isinstance(shapes, Mapping | tuple | list):
        raise ValueError(
            f"dynamic_shapes are {shapes!r}: expected them by input, such as {{'x': {{0: rows}}}}"
        )
    given = dict(arguments) if isinstance(shapes, Mapping) else tuple(arguments.values())
    names = tuple(arguments)
    for path, value in pytree.tree_flatten_with_path(given)[0]:
        first = path[0].key if isinstance(shapes, Mapping) else names[path[0].idx]
        of = _at(shapes, path)
        if of is not None:
            _check(f"{first}{pytree.keystr(path[1:])}", value, of)


def _at(shapes: Any, path: tuple[Any, ...]) -> Any:
    """What is said of the input at a path; None if that is nothing, or has another structure."""
    for step in path:
        if isinstance(step, pytree.MappingKey) and isinstance(shapes, Mapping):
            shapes = shapes.get(step.key)
        elif isinstance(step, pytree.SequenceKey) and isinstance(shapes, tuple | list):
            shapes = shapes[step.idx] if step.idx < len(shapes) else None
        else:
            return None
    return shapes


def _check(name: str, value: Any, shape: Any) -> None:
    if not isinstance(value, torch.Tensor):
        if isinstance(shape, Mapping | tuple | list):
            raise ValueError(f"dynamic_shapes: input {name} is {value!r}, which has no dimensions")
        return
    if not isinstance(shape, Mapping | tuple | list):
        return
    for axis, size in shape.items() if isinstance(shape, Mapping) else enumerate(shape):
        if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
            raise ValueError(f"dynamic_shapes: input {name} has no dimension {axis!r}: it has {value.dim()}")
        if isinstance(size, int) and size != value.shape[axis]:
            raise ValueError(
                f"dynamic_shapes: dimension {axis} of {name} is {size}, and {value.shape[axis]} in the example"
            )
