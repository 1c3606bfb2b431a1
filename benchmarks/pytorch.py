"""Times eight PyTorch modules with random weights on this machine: as they are, with torch.compile (Inductor, if a
C++ compiler works here), in ONNX Runtime as exported, and optimized.

``python benchmarks/pytorch.py [MODEL ..]`` prints medians, and how many times as fast as PyTorch each is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from math import sqrt
from statistics import median

import torch
from torch import nn
from torch.nn import functional as F

import tensat_dl.torch
from tensat_dl.measure.timing import in_turn


class Lstm(nn.Module):
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


class Residual(nn.Module):
    """A bottleneck of a ResNet."""

    def __init__(self, wide: int = 128, narrow: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(wide, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU()),
            *(nn.Conv2d(narrow, narrow, 3, padding=1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU()),
            *(nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + x)


class Decoder(nn.Module):
    """A block of a GPT with causal attention."""

    def __init__(self, size: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        q, k, v = (m(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / sqrt(q.shape[-1])
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        attended = scores.masked_fill(~mask, -1e9).softmax(-1) @ v
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GatedMlp(nn.Module):
    def __init__(self, size: int = 256) -> None:
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(size, 3 * size),
            nn.Linear(size, 3 * size),
            nn.Linear(3 * size, size),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class UNet(nn.Module):
    """One level down and up again, with the skip connection."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.first, self.inner = nn.Conv2d(size, size, 3, padding=1), nn.Conv2d(size, size, 3, padding=1)
        self.last = nn.Conv2d(2 * size, size, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = torch.relu(self.first(x))
        deep = torch.relu(self.inner(F.max_pool2d(skip, 2)))
        return torch.relu(self.last(torch.cat([F.interpolate(deep, scale_factor=2.0), skip], 1)))


class Experts(nn.Module):
    """A mixture of four experts, all of which are computed."""

    def __init__(self, size: int = 128) -> None:
        super().__init__()
        self.router = nn.Linear(size, 4)
        self.up = nn.ModuleList(nn.Linear(size, 2 * size) for _ in range(4))
        self.down = nn.ModuleList(nn.Linear(2 * size, size) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = self.router(x).softmax(-1)
        found = [down(F.gelu(up(x))) for up, down in zip(self.up, self.down, strict=True)]
        return sum(share[..., i : i + 1] * y for i, y in enumerate(found))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (32, 256)),
    "encoder": (encoder, (1, 64, 128)),
    "lstm": (Lstm, (8, 1, 128)),
    "residual": (Residual, (1, 128, 28, 28)),
    "decoder": (Decoder, (1, 64, 256)),
    "gated mlp": (GatedMlp, (64, 256)),
    "u-net": (UNet, (1, 32, 32, 32)),
    "experts": (Experts, (64, 128)),
}


def compiled(model: nn.Module, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """The module as Inductor compiles it, None where no C++ compiler works."""
    try:
        found: Callable[[torch.Tensor], torch.Tensor] = torch.compile(model)
        found(x)
    except Exception as e:  # torch has many kinds of errors for this
        print(f"torch.compile: {str(e).strip().splitlines()[0]}", file=sys.stderr)
        return None
    return found


def row(name: str) -> str:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    with torch.inference_mode():
        fast = tensat_dl.torch.optimize(model, (x,), time_limit=60)
        inductor = compiled(model, x)
        runs = [lambda: model(x), *([] if inductor is None else [lambda: inductor(x)])]
        rounds = in_turn(runs, time.perf_counter)
    others = {"module": 1.0} | {
        n: fast.latencies["module"].median_ms / t.median_ms for n, t in fast.latencies.items()
    }
    by_compile = "" if inductor is None else f"{median(r[0] / r[1] for r in rounds):.2f}x"
    ours = others[fast.called]
    cells = (f"{1e3 * median(r[0] for r in rounds):.3f} ms", by_compile, f"{others.get('exported', 0):.2f}x")
    return f"| {name:<9} | {cells[0]:>10} | {cells[1]:>13} | {cells[2]:>13} | {ours:>5.2f}x | {fast.called} |"


def main() -> None:
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| model     |    PyTorch | torch.compile | ONNX Runtime  | ours   | called |")
    print("|---|--:|--:|--:|--:|---|")
    for name in sys.argv[1:] or MODELS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main()
