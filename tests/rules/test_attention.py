"""Spellings of attention cost what the best graph costs that was written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensat_dl

pytestmark = pytest.mark.sampled(2)

INPUTS = "input x : f32[128, 512]\n" + "\n".join(f"weight w{c} : f32[512, 512]" for c in "qkvo")
PACKED = "input x : f32[128, 512]\nweight w : f32[512, 1536]\nweight wo : f32[512, 512]"
HEADS = "\n".join(f"{c} = transpose(reshape({c}; shape = [128, 4, 128]); perm = [1, 0, 2])" for c in "qkv")
ATTEND = "y = softmax(q @ transpose(k; perm = [0, 2, 1]){scale}; axis = 2) @ v"
JOIN = "output reshape(transpose(y; perm = [1, 0, 2]); shape = [128, 512]) @ wo"
SPLIT = "(q, k, v) = split(m; axis = 1, sizes = [512, 512, 512])"
ONE = """
  m = x @ concat(wq @ transpose(wk; perm = [1, 0]) * 0.0625, wv; axis = 1)
  (a, v) = split(m; axis = 1, sizes = [512, 512])
  output softmax(a @ transpose(x; perm = [1, 0]); axis = 1) @ v @ wo
"""
MANY = f"m = x @ concat(wq * 0.125, wk, wv; axis = 1)\n{SPLIT}\n{HEADS}\n{ATTEND.format(scale='')}\n{JOIN}"
FROM_PACKED = (
    "(a, b) = split(w; axis = 1, sizes = [512, 1024])\n"
    f"m = x @ concat(a * 0.125, b; axis = 1)\n{SPLIT}\n{HEADS}\n{ATTEND.format(scale='')}\n{JOIN}"
)
SEPARATE = "q = x @ wq\nk = x @ wk\nv = x @ wv\n"
SPELLINGS = {
    "one head": (
        INPUTS,
        SEPARATE + "output softmax(q @ transpose(k; perm = [1, 0]) / 16.0; axis = 1) @ v @ wo",
        ONE,
    ),
    "divided last": (
        INPUTS,
        SEPARATE
        + """
  e = exp(q @ transpose(k; perm = [1, 0]) / 16.0)
  output (e @ v) / reduce_sum(e; axis = 1) @ wo
""",
        ONE,
    ),
    "a slice for each head": (
        INPUTS,
        SEPARATE
        + """
  for i in 0..4 {
    qh = slice(q; axis = 1, start = 128 * i, stop = 128 * i + 128)
    kh = slice(k; axis = 1, start = 128 * i, stop = 128 * i + 128)
    vh = slice(v; axis = 1, start = 128 * i, stop = 128 * i + 128)
    y[i] = softmax(qh @ transpose(kh; perm = [1, 0]) / 8.0; axis = 1) @ vh
  }
  output concat(y[..]; axis = 1) @ wo
""",
        MANY,
    ),
    "packed": (
        PACKED,
        f"m = x @ w\n{SPLIT}\n{HEADS}\n{ATTEND.format(scale=' / 8.0')}\n{JOIN}",
        FROM_PACKED,
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_cost_what_the_best_graph_costs(name: str, tmp_path: Path) -> None:
    inputs, spelling, by_hand = SPELLINGS[name]
    costs = []
    for body, rules in ((spelling, ["standard"]), (by_hand, [])):
        path = tmp_path / "g.tsr"
        path.write_text(f"graph g {{\n{inputs}\n{body}\n}}\n")
        model = tensat_dl.load(str(path), rules=rules)
        costs.append(tensat_dl.optimize(model, verify=False).after.total)
    assert costs[0] <= costs[1] * 1.001
