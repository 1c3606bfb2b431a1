"""A weight that is added or multiplied folds into the product before it, whatever movement stands between the two:
each spelling of a batch normalisation costs as much as the network that is written by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tensat_dl
from tensat_dl.run.result import Result

pytestmark = pytest.mark.sampled(9)

#: More than any of these graphs takes, and a small part of what exploration may take.
MOST_NODES = 5_000
BLOCKS = 2

ROW = "weight b : f32[c] weight m : f32[c] weight s : f32[c] weight t : f32[c] weight v : f32[c]"
LAST = "f32[1, 1, 1, c]"
CHANNEL = "f32[1, c, 1, 1]"
AFFINE = "y = (y + b - m) * s + t"


def weights(shape: str) -> str:
    return " ".join(f"weight {name} : {shape}" for name in "bmstv")


def nhwc(given: str, steps: str, conv: str = "conv2d(x, k; pads = same)", act: str = "relu(y)") -> str:
    return (
        f"{given}\n  y = transpose({conv}; perm = [0, 2, 3, 1])\n  {steps}\n"
        f"  return transpose({act}; perm = [0, 3, 1, 2])"
    )


def nchw(given: str, steps: str) -> str:
    return f"{given}\n  y = conv2d(x, k; pads = same)\n  {steps}\n  return relu(y)"


def expanded(shape: str) -> str:
    wide = " ".join(f"{name}{name} = expand({name}; shape = {shape})\n " for name in "bmst")
    return f"{wide} y = (y + bb - mm) * ss + tt"


IMAGES = {
    "nhwc": nhwc(ROW, AFFINE),
    "nhwc-bias-before": nhwc(ROW, "y = (y - m) * s + t", "conv2d(x, k, b; pads = same)"),
    "nhwc-left": nhwc(ROW, "y = t + s * (b + y - m)"),
    "nhwc-rank-4": nhwc(weights(LAST), AFFINE),
    "nhwc-expanded": nhwc(ROW, expanded("[1, 14, 14, c]")),
    "nhwc-scalars": nhwc(weights("f32[]"), AFFINE),
    "nhwc-quotient": nhwc(ROW, "y = (y + b - m) / sqrt(v + 0.001) * s + t"),
    "nhwc-rsqrt": nhwc(ROW, "y = s * (y + b - m) * rsqrt(v + 0.001) + t"),
    "nchw": nchw(weights(CHANNEL), AFFINE),
    "nchw-expanded": nchw(weights(CHANNEL), expanded("[1, c, 14, 14]")),
    "nchw-quotient": nchw(weights(CHANNEL), "y = (y + b - m) / sqrt(v + 0.001) * s + t"),
    "rows-of-pixels": f"""{ROW}
  y = transpose(reshape(conv2d(x, k; pads = same); shape = [1, c, 196]); perm = [0, 2, 1])
  {AFFINE}
  return reshape(transpose(relu(y); perm = [0, 2, 1]); shape = [1, c, 14, 14])""",
    "matrix-of-pixels": f"""{ROW}
  y = reshape(transpose(conv2d(x, k; pads = same); perm = [0, 2, 3, 1]); shape = [196, c])
  {AFFINE}
  return transpose(reshape(relu(y); shape = [1, 14, 14, c]); perm = [0, 3, 1, 2])""",
    "batchnorm-of-columns": f"""{ROW}
  y = reshape(conv2d(x, k; pads = same); shape = [1, c, 196])
  return relu(reshape(batchnorm(y, s, t, m, v); shape = [1, c, 14, 14]))""",
}
RESIDUAL = {
    "nhwc": f"""{ROW}
  y = transpose(conv2d(x, k; pads = same); perm = [0, 2, 3, 1])
  {AFFINE}
  return transpose(relu(y + transpose(x; perm = [0, 2, 3, 1])); perm = [0, 3, 1, 2])""",
    "nchw": f"""{ROW}
  y = transpose(conv2d(x, k; pads = same); perm = [0, 2, 3, 1])
  {AFFINE}
  return relu(transpose(y; perm = [0, 3, 1, 2]) + x)""",
}
#: Functions of images with channels last, and the same where channels are second.
FUNCTIONS = {
    "leakyrelu": (nhwc(ROW, AFFINE, act="leakyrelu(y; alpha = 0.1)"), "leakyrelu({}; alpha = 0.1)"),
    "elu": (nhwc(ROW, AFFINE, act="elu(y)"), "elu({})"),
    "prelu": (nhwc(f"{ROW} weight a : f32[c]", AFFINE, act="prelu(y, a)"), "prelu({}, a)"),
    "prelu-rank-3": (nhwc(f"{ROW} weight a : f32[1, 1, c]", AFFINE, act="prelu(y, a)"), "prelu({}, a)"),
}
PIXELS = {
    "reshape": f"""{ROW}
  y = reshape(conv2d(x, k); shape = [32, c])
  {AFFINE}
  return reshape(relu(y); shape = [32, c, 1, 1])""",
    "transpose": nhwc(ROW, AFFINE, "conv2d(x, k)"),
}
ROWS = {
    "reshape": f"""{ROW}
  y = reshape(x @ k; shape = [2, 32, c])
  {AFFINE}
  return reshape(relu(y); shape = [64, c])""",
    "channels": f"""{weights("f32[c, 1]")}
  y = transpose(reshape(x @ k; shape = [2, 32, c]); perm = [0, 2, 1])
  {AFFINE}
  return reshape(transpose(relu(y); perm = [0, 2, 1]); shape = [64, c])""",
    "heads": f"""{weights("f32[8, 1, 32]")}
  y = transpose(reshape(x @ k; shape = [1, 64, 8, 32]); perm = [0, 2, 1, 3])
  {AFFINE}
  return reshape(transpose(relu(y); perm = [0, 2, 1, 3]); shape = [64, c])""",
    "batchnorm": f"""{ROW}
  y = transpose(reshape(x @ k; shape = [2, 32, c]); perm = [0, 2, 1])
  y = transpose(batchnorm(y, s, t, m, v); perm = [0, 2, 1])
  return reshape(relu(y); shape = [64, c])""",
}


def optimized(body: str, x: str, kernel: str, pack: str, verify: bool) -> Result:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.tsr"
        path.write_text(f"""import "{pack}"
block layer(x; c: int) {{
  weight k : f32[{kernel}]
  {body}
}}
graph model {{
  input x : f32[{x}]
  for i in 0..{BLOCKS} {{ x = layer(x; c = dim(x, 1)) }}
  output x
}}
""")
        model = tensat_dl.load(str(path))
    return tensat_dl.optimize(model, max_nodes=MOST_NODES, verify=verify)


@cache
def cost_by_hand(layer: str, x: str, kernel: str) -> float:
    given = "weight b : f32[c]\n  weight a : f32[c, 1, 1]"
    return optimized(f"{given}\n  return {layer}", x, kernel, "standard", False).after.total


def folds(spelling: str, by_hand: str, x: str, kernel: str) -> None:
    found = optimized(spelling.replace("weight ", "\n  weight "), x, kernel, "inference", True)
    assert found.stop == "saturated"
    assert found.equivalence is not None
    assert found.equivalence.status == "equivalent"
    assert found.after.total == pytest.approx(cost_by_hand(by_hand, x, kernel))


@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str) -> None:
    by_hand = "conv2d(x, k, b; pads = same, act = relu)"
    folds(IMAGES[name], by_hand, "1, 64, 14, 14", "c, c, 3, 3")


@pytest.mark.parametrize("name", RESIDUAL)
def test_residual_blocks(name: str) -> None:
    by_hand = "relu(conv2d(x, k, b; pads = same) + x)"
    folds(RESIDUAL[name], by_hand, "1, 64, 14, 14", "c, c, 3, 3")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_images(name: str) -> None:
    spelling, act = FUNCTIONS[name]
    folds(spelling, act.format("conv2d(x, k, b; pads = same)"), "1, 64, 14, 14", "c, c, 3, 3")


@pytest.mark.parametrize("name", PIXELS)
def test_images_of_one_pixel(name: str) -> None:
    folds(PIXELS[name], "conv2d(x, k, b; act = relu)", "32, 64, 1, 1", "c, c, 1, 1")


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    folds(ROWS[name], "matmul(x, k, b; act = relu)", "64, 256", "c, c")
