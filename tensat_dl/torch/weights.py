"""The state that a module had when it was optimized, to tell when it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


class WeightsAsTheyWere:
    """The parameters, buffers and submodules of a module at one moment.

    Writes through ``tensor.data``, or through an array that shares a tensor's memory, leave no trace in PyTorch, and
    are not noticed here.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._tensors = list(_tensors(module))
        self._modules = [
            (m, m.training, [(m._modules, name, child) for name, child in m._modules.items()])
            for m in module.modules()
        ]

    def changed(self) -> str:
        """What has changed since then, in words; empty if nothing has."""
        for where, name, tensor, version, address, path in self._tensors:
            now = where.get(name)
            if now is not tensor or _version(now) != version or now.data_ptr() != address:
                return f"{path} has changed since it was optimized"
        for module, training, children in self._modules:
            if module.training != training:
                return f"it is in {'training' if module.training else 'evaluation'} mode now"
            if len(module._modules) != len(children):
                return "a submodule has come or gone since it was optimized"
            for where, name, child in children:
                if where.get(name) is not child:
                    return f"the submodule {name} is another one now"
        return ""

    def wants_gradients(self) -> bool:
        """Whether a parameter or buffer requires a gradient."""
        return any(tensor.requires_grad for _, _, tensor, *_ in self._tensors)


def _tensors(module: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, Any, int, int, str]]:
    """Each parameter and buffer: the dictionary that holds it, its name there, its version, address and full
    name."""
    for prefix, m in module.named_modules():
        for where in (m._parameters, m._buffers):
            for name, tensor in where.items():
                if tensor is not None:
                    path = f"{prefix}.{name}" if prefix else name
                    yield where, name, tensor, _version(tensor), tensor.data_ptr(), path


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
