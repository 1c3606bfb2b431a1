"""Weights in unusual places, mixtures of experts, padding: answers cost what graphs cost that people write."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import tensat_dl
from tensat_dl.run.result import Result

pytestmark = pytest.mark.sampled(4)


@dataclass(frozen=True)
class Case:
    declared: str
    written: str
    by_hand: str


ROWS = "input x : f32[64, 256] input y : f32[64, 256] weight w : f32[256, 256] weight b : f32[256]"
IMAGES = "input x : f32[1, 64, 14, 14] weight k : f32[64, 64, 3, 3] weight b : f32[64]"
CONV = "conv2d(x, k, b; pads = same)"
CHANNELS = "reshape(b; shape = [64, 1, 1])"
LAST = "transpose({}; perm = [0, 2, 3, 1])"
SECOND = "output transpose({}; perm = [0, 3, 1, 2])"


def gated(rank: int) -> str:
    rows = {2: "64", 3: "2, 32"}[rank]
    inputs = " ".join(f"input {x} : f32[{rows}, 256]" for x in "abc")
    weights = " ".join(f"weight {w} : f32[256, 256] weight e{w} : f32[256]" for w in "uvw")
    return f"{inputs} {weights} input p : f32[{rows}, 3]"


GATES = "(r, s, t) = split(p; axis = {}, sizes = [1, 1, 1])"
STACKED = """
  z = concat(reshape(a; shape = [64, 256]), reshape(b; shape = [64, 256]), reshape(c; shape = [64, 256]); axis = 1)
  z = reshape(z; shape = [64, 3, 256]) * reshape(p; shape = [64, 3, 1])
  z = reshape(z; shape = [64, 768])
"""
BIASES = " ".join(f"{b} = reshape({b}; shape = [1, 256])\n" for b in ("eu", "ev", "ew"))
ATTENTION = (
    """input x : f32[128, 256] input k : f32[4, 64, 128] input mask : f32[128] weight w : f32[256, 256]"""
)
HEADS = "q = transpose(reshape(x @ {}; shape = [128, 4, 64]); perm = [1, 0, 2])"
STEM = "input x : f32[1, 3, 64, 64] weight k : f32[32, 3, 8, 8] weight m : f32[{0}] weight s : f32[{0}]"
STEM_BY_HAND = """
  k = k * reshape({s}; shape = [1, 3, 1, 1])
  m = expand(reshape(neg(m); shape = [1, 3, 1, 1]); shape = [1, 3, 8, 8])
  output conv2d(x, k, reshape(conv2d(m, k); shape = [32]); stride = 8, act = relu)"""
NORMS = (
    "input x : f32[1, 32, 14, 14] weight k : f32[64, 32, 3, 3] "
    "weight m : f32[{0}] weight v : f32[{0}] weight g : f32[{0}] weight b : f32[{0}]"
)
NORM_BY_HAND = """
  r = reshape(g / sqrt(v + 0.001); shape = [64])
  c = reshape(b; shape = [64]) - reshape(m; shape = [64]) * r
  output conv2d(x, k * reshape(r; shape = [64, 1, 1, 1]), c; pads = same, act = relu)"""

CASES = {
    "bias after a residual": Case(ROWS, "output (y + x @ w) + b", "output matmul(x, w, b) + y"),
    "bias of the residual": Case(ROWS, "output x @ w + (y + b)", "output matmul(x, w, b) + y"),
    "bias after a difference": Case(ROWS, "output (x @ w - y) + b", "output matmul(x, w, b) - y"),
    "bias after two residuals": Case(
        ROWS, "output b + (y * y + (x + x @ w))", "output (matmul(x, w, b) + x) + y * y"
    ),
    "bias after a convolution and a residual": Case(
        IMAGES,
        f"output relu((conv2d(x, k; pads = same) + x) + {CHANNELS})",
        f"output relu({CONV} + x)",
    ),
    "bias after a convolution and a residual, channels last": Case(
        IMAGES,
        f"""
  y = {LAST.format("conv2d(x, k; pads = same)")}
  r = {LAST.format("x")}
  {SECOND.format("relu((r + y) + b)")}""",
        f"output relu({CONV} + x)",
    ),
    "three experts": Case(
        gated(2),
        f"{GATES.format(1)}\n  output a @ u * r + b @ v * s + c @ w * t",
        f"{STACKED}\n  output z @ concat(u, v, w; axis = 0)",
    ),
    "three experts with biases": Case(
        gated(2),
        f"{GATES.format(1)}\n  output r * (a @ u + eu) + (s * (b @ v + ev) + t * (c @ w + ew))",
        f"{STACKED} {BIASES}\n  output concat(z, p; axis = 1) @ concat(concat(u, v, w; axis = 0), "
        "concat(eu, ev, ew; axis = 0); axis = 0)",
    ),
    "three experts, batches": Case(
        gated(3),
        f"{GATES.format(2)}\n  output a @ u * r + b @ v * s + c @ w * t",
        f"{STACKED}\n  output reshape(z @ concat(u, v, w; axis = 0); shape = [2, 32, 256])",
    ),
    "a mixture of layers": Case(
        gated(2),
        f"{GATES.format(1)}\n  output a @ u * r + a @ v * s + a @ w * t",
        """z = reshape(a; shape = [64, 1, 256]) * reshape(p; shape = [64, 3, 1])
  output reshape(z; shape = [64, 768]) @ concat(u, v, w; axis = 0)""",
    ),
    "padding before a transpose": Case(
        "input x : f32[1, 14, 14, 32] weight k : f32[64, 32, 3, 3]",
        """y = pad(x; before = [0, 1, 1, 0], after = [0, 1, 0, 0])
  output relu(conv2d(transpose(y; perm = [0, 3, 1, 2]), k))""",
        "output conv2d(transpose(x; perm = [0, 3, 1, 2]), k; pads = [1, 1, 1, 0], act = relu)",
    ),
    "padding between transposes": Case(
        "input x : f32[1, 32, 14, 14] weight k : f32[32, 32, 3, 3]",
        f"""y = {LAST.format("conv2d(x, k; act = relu)")}
  y = pad(y; before = [0, 1, 1, 0], after = [0, 1, 1, 0])
  output conv2d(transpose(y; perm = [0, 3, 1, 2]), k)""",
        "output conv2d(conv2d(x, k; act = relu), k; pads = 1)",
    ),
    "a mask before the scale": Case(
        ATTENTION,
        f"{HEADS.format('w')}\n  output softmax((q @ k + mask) / 8.0; axis = 2)",
        f"{HEADS.format('(w * 0.125)')}\n  output softmax(q @ k + mask * 0.125; axis = 2)",
    ),
    "a scale of a residual": Case(ROWS, "output (x @ w + y * 0.1) * 10.0", "output x @ (w * 10.0) + y"),
    "a scale of a residual and a bias": Case(
        ROWS, "output ((y * 0.5 + x @ w) + b) / 0.25", "output matmul(x, w * 4.0, b * 4.0) + y * 2.0"
    ),
    "a scale of a residual of images": Case(
        IMAGES,
        "output (conv2d(x, k; pads = same) + x * 0.1) * 10.0",
        "output conv2d(x, k * 10.0; pads = same) + x",
    ),
    "means and deviations of channels": Case(
        STEM.format("3, 1, 1"),
        "output relu(conv2d((x - m) / s, k; stride = 8))",
        STEM_BY_HAND.format(s="1.0 / s"),
    ),
    "means and deviations of channels, of images": Case(
        STEM.format("1, 3, 1, 1"),
        "output relu(conv2d(s * x + neg(m) * s, k; stride = 8))",
        STEM_BY_HAND.format(s="s"),
    ),
    "normalisation by a quotient": Case(
        NORMS.format("64, 1, 1"),
        "output relu(g * ((conv2d(x, k; pads = same) - m) / sqrt(v + 0.001)) + b)",
        NORM_BY_HAND,
    ),
    "normalisation by a quotient of quotients": Case(
        NORMS.format("1, 64, 1, 1"),
        "output relu((conv2d(x, k; pads = same) - m) / (sqrt(v + 0.001) / g) + b)",
        NORM_BY_HAND,
    ),
    "normalisation, channels last": Case(
        NORMS.format("64"),
        f"""y = {LAST.format("conv2d(x, k; pads = same)")}
  {SECOND.format("relu((y - m) / sqrt(v + 0.001) * g + b)")}""",
        NORM_BY_HAND,
    ),
    "one of two products by one weight is scaled": Case(
        "input x : f32[32, 512] input y : f32[32, 512] weight e : f32[1000, 512]",
        """t = transpose(e; perm = [1, 0])
  output softmax((x + y) * 0.5 @ t / 2.0; axis = 1), softmax(x @ t; axis = 1)""",
        """both = softmax(concat((x + y) * 0.25, x; axis = 0) @ transpose(e; perm = [1, 0]); axis = 1)
  (l, m) = split(both; axis = 0, sizes = [32, 32])
  output l, m""",
    ),
    "peepholes": Case(
        "input x : f32[16, 256] input c : f32[16, 256] "
        + " ".join(f"weight w{g} : f32[256, 256] weight b{g} : f32[256]" for g in "ifg")
        + " weight pi : f32[256] weight pf : f32[256]",
        """i = sigmoid(x @ wi + pi * c + bi)
  f = sigmoid(x @ wf + pf * c + bf)
  output f * c + i * tanh(x @ wg + bg)""",
        """m = matmul(x, concat(wi, wf, wg; axis = 1), concat(bi, bf, bg; axis = 0))
  (a, g) = split(m; axis = 1, sizes = [512, 256])
  (i, f) = split(
    sigmoid(a + concat(pi, pf; axis = 0) * concat(c, c; axis = 1)); axis = 1, sizes = [256, 256]
  )
  output f * c + i * tanh(g)""",
    ),
}


def optimized(path: Path, declared: str, body: str) -> Result:
    statements = declared.replace(" input ", "\n  input ").replace(" weight ", "\n  weight ")
    path.write_text(f"graph g {{\n  {statements}\n  {body}\n}}\n")
    return tensat_dl.optimize(tensat_dl.load(str(path), rules=["standard"]), max_nodes=5_000, verify=False)


@pytest.mark.parametrize("name", CASES)
def test_costs_what_is_written_by_hand(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    graph = partial(optimized, tmp_path / "g.tsr", case.declared)
    found = graph(case.written)
    assert found.stop == "saturated"
    assert found.after.total <= graph(case.by_hand).after.total * 1.001


@pytest.mark.parametrize("product", ["(x * 0.1) * 10.0", "x * 0.1 * 10.0 * 0.1 * 10.0", "(x * 0.3) / 0.3"])
def test_factors_that_cancel_are_left_out(product: str, tmp_path: Path) -> None:
    found = optimized(tmp_path / "g.tsr", "input x : f32[64, 256]", f"output relu({product})")
    assert found.stop == "saturated"
    assert found.nodes < 100
