"""Builds the modules of ``tensat-dl bench torch``, in evaluation mode, with inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tensat_dl.bench.torch_models import TorchEntry

#: Arguments by name.
Inputs = dict[str, torch.Tensor]


def build(entry: TorchEntry) -> tuple[nn.Module, Inputs]:
    """The module of an entry and its inputs, the same at each call."""
    torch.manual_seed(0)
    settings, size = dict(entry.settings), entry.size
    if entry.library == "transformers":
        module = _of_transformers(entry.name, settings, entry.inputs)
    elif entry.library == "torchvision":
        make = importlib.import_module("torchvision.models").get_model
        module = make(entry.name, weights=None, **settings)
    elif entry.library == "timm":
        module = importlib.import_module("timm").create_model(entry.name, pretrained=False, **settings)
    else:
        module, inputs = _BUILT[entry.name]()
        return module.eval(), inputs
    _settled(module)
    if entry.inputs == "text":
        ids = torch.randint(5, 1000, (1, size))
        return module, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if entry.inputs == "audio":
        return module, {"input_features": torch.randn(1, 80, size)}
    name = {"transformers": "pixel_values", "torchvision": "x", "timm": "x"}[entry.library]
    return module, {name: torch.randn(1, 3, size, size)}


def _of_transformers(name: str, settings: dict[str, Any], inputs: str) -> nn.Module:
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, name)(**settings)
    found: nn.Module = transformers.AutoModel.from_config(config)
    return found.get_encoder() if inputs == "audio" else found  # type: ignore[operator, unused-ignore]


def _settled(module: nn.Module) -> None:
    """Puts a module in evaluation mode, with statistics of batch normalisation as after training: those of a new
    module would make it an identity."""
    module.eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.1)
            assert part.running_var is not None
            part.running_var.uniform_(0.5, 1.5)


class LstmCells(nn.Module):  # type: ignore[misc, unused-ignore]
    """Eight steps of an LSTM cell with four products by weights in each."""

    def __init__(self, size: int = 128) -> None:
        super().__init__()
        self.of_input = nn.ModuleList(nn.Linear(size, size) for _ in range(4))
        self.of_state = nn.ModuleList(nn.Linear(size, size) for _ in range(4))

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros_like(steps[0])
        for x in steps.unbind(0):
            i, f, g, o = (a(x) + b(h) for a, b in zip(self.of_input, self.of_state, strict=True))
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


class DiffusionBlock(nn.Module):  # type: ignore[misc, unused-ignore]
    """A block of a diffusion U-Net, down and up again: convolutions with the embedding of a time step, and
    attention at the lower resolution."""

    def __init__(self, size: int = 64, embedding: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.inner = nn.Conv2d(size, size, 3, padding=1), nn.Conv2d(size, size, 3, padding=1)
        self.down = nn.Conv2d(size, size, 3, stride=2, padding=1)
        self.last = nn.Conv2d(2 * size, size, 3, padding=1)
        self.of_time = nn.Linear(embedding, size)
        self.norms = nn.ModuleList(nn.GroupNorm(8, size) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        skip = self.first(F.silu(self.norms[0](x))) + self.of_time(F.silu(time))[:, :, None, None]
        low = self.inner(F.silu(self.norms[1](self.down(skip))))
        flat = self.norms[2](low).flatten(2).transpose(1, 2)
        q, k, v = (m(flat).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        attended = (q @ k.transpose(-1, -2) / sqrt(q.shape[-1])).softmax(-1) @ v
        low = low + self.o(attended.transpose(1, 2).flatten(2)).transpose(1, 2).unflatten(2, low.shape[2:])
        return self.last(torch.cat([F.interpolate(low, scale_factor=2.0), skip], 1))


class Experts(nn.Module):  # type: ignore[misc, unused-ignore]
    """A mixture of four experts, all of which are computed."""

    def __init__(self, size: int = 256) -> None:
        super().__init__()
        self.router = nn.Linear(size, 4)
        self.up = nn.ModuleList(nn.Linear(size, 2 * size) for _ in range(4))
        self.down = nn.ModuleList(nn.Linear(2 * size, size) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = self.router(x).softmax(-1)
        found = [down(F.gelu(up(x))) for up, down in zip(self.up, self.down, strict=True)]
        return sum((share[..., i : i + 1] * y for i, y in enumerate(found)), torch.zeros_like(x))


_BUILT: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "lstm": lambda: (LstmCells(), {"steps": torch.randn(8, 1, 128)}),
    "diffusion": lambda: (DiffusionBlock(), {"x": torch.randn(1, 64, 32, 32), "time": torch.randn(1, 128)}),
    "experts": lambda: (Experts(), {"x": torch.randn(64, 256)}),
}
