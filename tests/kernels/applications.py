"""Small applications of every operator that has kernels, with shapes that fit no tile."""

from __future__ import annotations

from tensat_dl.cost.signature import Signature, parse
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.traits import traits

CONV = "act=none, dilation=[1, 1], pads=[0, 0, 0, 0], stride=[1, 1]"

APPLICATIONS = [
    *(f"{op}(f32[3, 70]) -> f32[3, 70]" for op in FUNCTIONS if not traits(op).positive),
    *(f"ew{op}(f32[3, 4, 5], f32[4, 1]) -> f32[3, 4, 5]" for op in ("add", "sub", "mul", "div", "max", "min")),
    "smul(f32[7, 3], f32[]) -> f32[7, 3]",
    "ewadd(bf16[6, 1, 5], bf16[4, 5]) -> bf16[6, 4, 5]",
    "ewmul(f16[300], f16[300]) -> f16[300]",
    "power(f32[40]; exponent=3.0) -> f32[40]",
    "power(f32[40]; exponent=-2.0) -> f32[40]",
    "equal(f32[5, 4], f32[4]) -> bool[5, 4]",
    "greater(f32[5, 4], f32[4]) -> bool[5, 4]",
    "select(bool[5, 1], f32[5, 4], f32[4]) -> f32[5, 4]",
    "select(bool[5, 1], bool[5, 4], bool[4]) -> bool[5, 4]",
    "cast(f32[9]; to=f16) -> f16[9]",
    "batchnorm(f32[2, 3, 4, 5], f32[3], f32[3], f32[3], f32[3]; eps=0.001) -> f32[2, 3, 4, 5]",
    "matmul(f32[5, 40], f32[40, 33]; act=none) -> f32[5, 33]",
    "matmul(f32[33, 70], f32[70, 40], f32[40]; act=relu) -> f32[33, 40]",
    "matmul(f32[1, 70], f32[70, 40], f32[40]; act=tanh) -> f32[1, 40]",
    "matmul(f32[2, 3, 17, 20], f32[2, 3, 20, 18]; act=sigmoid) -> f32[2, 3, 17, 18]",
    "matmul(f32[2, 2, 3, 17, 20], f32[2, 2, 3, 20, 18]; act=none) -> f32[2, 2, 3, 17, 18]",
    "matmul(f32[2, 2, 3, 2, 20], f32[2, 2, 3, 20, 18]; act=none) -> f32[2, 2, 3, 2, 18]",
    "matmul(f16[3, 17, 20], f16[3, 20, 18], f16[18]; act=gelu) -> f16[3, 17, 18]",
    "matmul(bf16[40, 33], bf16[33, 20]; act=none) -> bf16[40, 20]",
    # a long k, which is split
    "matmul(f32[5, 530], f32[530, 33]; act=none) -> f32[5, 33]",
    "matmul(f32[1, 1100], f32[1100, 40], f32[40]; act=relu) -> f32[1, 40]",
    "matmul(f32[20, 150], f32[150, 30]; act=tanh) -> f32[20, 30]",
    "matmul(f32[70, 330], f32[330, 65], f32[65]; act=relu) -> f32[70, 65]",
    "matmul(f32[2, 3, 17, 290], f32[2, 3, 290, 18]; act=sigmoid) -> f32[2, 3, 17, 18]",
    "matmul(f16[3, 17, 600], f16[3, 600, 18], f16[18]; act=gelu) -> f16[3, 17, 18]",
    "matmul(bf16[40, 1050], bf16[1050, 20]; act=none) -> bf16[40, 20]",
    "conv2d(f32[2, 64, 7, 6], f32[10, 32, 3, 3], f32[10]; act=relu, dilation=[1, 1], pads=[1, 2, 0, 1],"
    " stride=[1, 2]) -> f32[2, 10, 6, 4]",
    f"conv2d(f16[1, 1040, 3, 3], f16[18, 1040, 1, 1]; {CONV}) -> f16[1, 18, 3, 3]",
    f"conv2d(f32[2, 3, 8, 7], f32[5, 3, 3, 3]; {CONV}) -> f32[2, 5, 6, 5]",
    "conv2d(f32[1, 4, 9, 8], f32[6, 2, 3, 2], f32[6]; act=relu, dilation=[2, 1], pads=[1, 0, 2, 1], stride=[2, 1])"
    " -> f32[1, 6, 4, 8]",
    f"conv2d(f16[1, 20, 6, 6], f16[18, 20, 1, 1], f16[18]; {CONV}) -> f16[1, 18, 6, 6]",
    "conv2d(f32[2, 4, 8, 8], f32[8, 1, 3, 3], f32[8]; act=sigmoid, dilation=[1, 1], pads=[1, 1, 1, 1], stride=[2, 2])"
    " -> f32[2, 8, 4, 4]",
    "poolmax(f32[2, 3, 8, 7]; act=none, kernel=[3, 2], pads=[1, 0, 2, 1], stride=[2, 2]) -> f32[2, 3, 5, 4]",
    "poolmax(f32[1, 3, 8, 8]; act=tanh, kernel=[2, 2], pads=[0, 0, 0, 0], stride=[2, 2]) -> f32[1, 3, 4, 4]",
    "poolavg(f32[2, 3, 8, 7]; act=none, include_pad=false, kernel=[3, 2], pads=[1, 0, 2, 1], stride=[2, 2])"
    " -> f32[2, 3, 5, 4]",
    "poolavg(f32[2, 3, 8, 7]; act=relu, include_pad=true, kernel=[3, 3], pads=[1, 1, 1, 1], stride=[1, 1])"
    " -> f32[2, 3, 8, 7]",
    "softmax(f32[3, 50]; axis=1) -> f32[3, 50]",
    "softmax(f16[3, 5, 6]; axis=1) -> f16[3, 5, 6]",
    "layernorm(f32[2, 5, 33], f32[33], f32[33]; eps=0.00001) -> f32[2, 5, 33]",
    "rmsnorm(bf16[5, 33], bf16[33]; eps=0.00001) -> bf16[5, 33]",
    *(f"{op}(f32[3, 5, 6]; axis=1) -> f32[3, 1, 6]" for op in ("reduce_sum", "reduce_mean", "reduce_max")),
    "reduce_sum(f32[7, 5]; axis=1) -> f32[7, 1]",
    "transpose(f32[40, 5, 35]; perm=[2, 1, 0]) -> f32[35, 5, 40]",
    "transpose(f16[4, 5, 6, 7]; perm=[0, 2, 1, 3]) -> f16[4, 6, 5, 7]",
    "slice(f32[5, 8, 3]; axis=1, start=2, stop=5) -> f32[5, 3, 3]",
    "reshape(f32[5, 8, 3]; shape=[15, 8]) -> f32[15, 8]",
    "concat(f32[3, 5, 2], f32[3, 1, 2], f32[3, 4, 2]; axis=1) -> f32[3, 10, 2]",
    "concat(i64[300], i64[5]; axis=0) -> i64[305]",
    "expand(f32[3, 1]; shape=[4, 3, 5]) -> f32[4, 3, 5]",
    "pad(f32[3, 5]; after=[1, 0], before=[0, 2], mode=constant, value=1.5) -> f32[4, 7]",
    "pad(f32[3, 5]; after=[2, 0], before=[1, 4], mode=reflect, value=0.0) -> f32[6, 9]",
    "pad(f32[3, 5]; after=[2, 0], before=[1, 9], mode=edge, value=0.0) -> f32[6, 14]",
    "gather(f32[3, 5, 2], i64[2, 2]; axis=1) -> f32[3, 2, 2, 2]",
    "gather(f32[5], i64[]; axis=0) -> f32[]",
    "enlarge(f32[2, 3, 1, 3]; kernel=[4, 3]) -> f32[2, 3, 4, 3]",
    "merge(f32[8, 2, 1, 1]; count=2, groups=4) -> f32[8, 4, 1, 1]",
    "resize(f32[1, 2, 4, 5]; coordinates=half_pixel, mode=linear, rounding=half_down, size=[6, 3])"
    " -> f32[1, 2, 6, 3]",
    "resize(f32[1, 2, 4, 5]; coordinates=asymmetric, mode=nearest, rounding=down, size=[8, 10]) -> f32[1, 2, 8, 10]",
    "conv_identity(; channels=4, dtype=f32, groups=2, kernel=[3, 3]) -> f32[4, 2, 3, 3]",
    "eye(; dtype=f32, n=3) -> f32[3, 3]",
]  # fmt: skip


def application(text: str) -> Signature:
    return parse(f"{text} @ h100")
