"""The state that a module had when it was optimized, to tell when it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch


class HeldTensor(NamedTuple):
    """A tensor of a module: the dictionary that has it, its name there, and its full name."""

    where: dict[str, Any]
    name: str
    tensor: Any
    version: int
    address: int
    path: str


class WeightsAsTheyWere:
    """The parameters, buffers and other tensors of a module at one moment, its submodules, and those of its
    attributes that are numbers, truth values or strings.

    Writes through ``tensor.data``, or through an array that shares a tensor's memory, leave no trace in PyTorch, and
    are not noticed here; nor are other attributes.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._tensors = list(_tensors(module))
        self._settings = [
            (vars(m), name, value, _path(prefix, name))
            for prefix, m in module.named_modules()
            for name, value in vars(m).items()
            if type(value) in (bool, int, float, str) and not name.startswith("_")
        ]
        self._modules = [
            (m._modules, len(m._modules), name, child)
            for m in module.modules()
            for name, child in m._modules.items()
        ]

    def changed(self) -> str:
        """What has changed since then, in words; empty if nothing has."""
        for where, name, tensor, version, address, path in self._tensors:
            now = where.get(name)
            if now is not tensor or _version(now) != version or now.data_ptr() != address:
                return f"{path} has changed since it was optimized"
        for where, name, value, path in self._settings:
            if where.get(name) is not value and where.get(name) != value:
                return f"{path} was {value} when it was optimized"
        for where, count, name, child in self._modules:
            if where.get(name) is not child or len(where) != count:
                return "it has other submodules than when it was optimized"
        return ""

    def wants_gradients(self) -> bool:
        """Whether a parameter or buffer requires a gradient."""
        return any(held.tensor.requires_grad for held in self._tensors)


def _tensors(module: torch.nn.Module) -> Iterator[HeldTensor]:
    for prefix, m in module.named_modules():
        for where in (m._parameters, m._buffers, vars(m)):
            for name, tensor in where.items():
                if isinstance(tensor, torch.Tensor):
                    path = _path(prefix, name)
                    yield HeldTensor(where, name, tensor, _version(tensor), tensor.data_ptr(), path)


def _path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
