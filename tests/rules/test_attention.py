"""Spellings of attention cost what the best graph costs that was written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensat_dl

pytestmark = pytest.mark.sampled(6)

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
#: The heads' results are computed transposed, so that joining them copies nothing.
BEST = """
  weights = softmax(q @ transpose(k; perm = [0, 2, 1]); axis = 2)
  y = transpose(v; perm = [0, 2, 1]) @ transpose(weights; perm = [0, 2, 1])
  output transpose(reshape(y; shape = [512, 128]); perm = [1, 0]) @ wo
"""
MANY = f"m = x @ concat(wq * 0.125, wk, wv; axis = 1)\n{SPLIT}\n{HEADS}\n{BEST}"
FROM_PACKED = (
    "(a, b) = split(w; axis = 1, sizes = [512, 1024])\n"
    f"m = x @ concat(a * 0.125, b; axis = 1)\n{SPLIT}\n{HEADS}\n{BEST}"
)
SEPARATE = "q = x @ wq\nk = x @ wk\nv = x @ wv\n"


def shared(groups: int) -> str:
    """The inputs of 8 heads, of which 8 / ``groups`` share their keys and values."""
    widths = {"wq": 512, "wk": 64 * groups, "wv": 64 * groups, "wo": 512}
    weights = "\n".join(f"weight {name} : f32[512, {width}]" for name, width in widths.items())
    return f"input x : f32[128, 512]\nweight mask : f32[128, 128]\n{weights}"


def repeated(groups: int, mask: str = "") -> str:
    """Keys and values repeated by expand between reshapes, as exporters do."""
    one, each = f"[{groups}, 1, 128, 64]", f"[{groups}, {8 // groups}, 128, 64]"
    lines = ["q = transpose(reshape(x @ wq; shape = [128, 8, 64]); perm = [1, 0, 2])"]
    for c in "kv":
        lines += [
            f"{c} = transpose(reshape(x @ w{c}; shape = [128, {groups}, 64]); perm = [1, 0, 2])",
            f"{c} = expand(reshape({c}; shape = {one}); shape = {each})",
            f"{c} = reshape({c}; shape = [8, 128, 64])",
        ]
    return "\n".join([*lines, ATTEND.format(scale=f" / 8.0{mask}"), JOIN])


def of_groups(groups: int, mask: str = "") -> str:
    """By hand: the queries of the heads that share keys are rows of one product, token by token."""
    heads = f"[{groups}, 128, {8 // groups}, {{}}]"
    rows = f"shape = [{groups}, {128 * (8 // groups)}, {{}}]"
    return f"""
  q = x @ (wq * 0.125)
  (k, v) = split(x @ concat(wk, wv; axis = 1); axis = 1, sizes = [{64 * groups}, {64 * groups}])
  q = transpose(reshape(q; shape = [128, {groups}, {8 // groups}, 64]); perm = [1, 0, 2, 3])
  k = transpose(reshape(k; shape = [128, {groups}, 64]); perm = [1, 2, 0])
  v = transpose(reshape(v; shape = [128, {groups}, 64]); perm = [1, 0, 2])
  s = reshape(reshape(q; {rows.format(64)}) @ k; shape = {heads.format(128)}){mask}
  y = reshape(reshape(softmax(s; axis = 3); {rows.format(128)}) @ v; shape = {heads.format(64)})
  output reshape(transpose(y; perm = [1, 0, 2, 3]); shape = [128, 512]) @ wo
"""


def broadcast(groups: int) -> str:
    """Keys and values of rank 4, which `@` stretches."""
    parts = {"q": 8 // groups, "k": 1, "v": 1}
    lines = [
        f"{c} = transpose(reshape(x @ w{c}; shape = [128, {groups}, {n}, 64]); perm = [1, 2, 0, 3])"
        for c, n in parts.items()
    ]
    return "\n".join(
        [
            *lines,
            "y = softmax(q @ transpose(k; perm = [0, 1, 3, 2]) / 8.0; axis = 3) @ v",
            "output reshape(transpose(y; perm = [2, 0, 1, 3]); shape = [128, 512]) @ wo",
        ]
    )


TURNED = "weight cs : f32[128, 64]\nweight sn : f32[128, 64]"


def turned(c: str) -> str:
    """Rotary position embeddings of heads of queries or keys."""
    return (
        f"(a{c}, b{c}) = split({c}; axis = 2, sizes = [32, 32])\n"
        f"{c} = {c} * cs + concat(b{c} * -1.0, a{c}; axis = 2) * sn"
    )


#: By hand: turned weights, and the scale in the numbers that multiply the keys.
ROTARY = f"""
  (q1, q2) = split(reshape(wq; shape = [512, 8, 64]); axis = 2, sizes = [32, 32])
  (k1, k2) = split(reshape(wk; shape = [512, 8, 64]); axis = 2, sizes = [32, 32])
  wr = reshape(concat(neg(q2), q1; axis = 2); shape = [512, 512])
  ws = reshape(concat(neg(k2), k1; axis = 2); shape = [512, 512])
  m = x @ concat(wq, wk, wv, wr, ws; axis = 1)
  (q, k, v, r, s) = split(m; axis = 1, sizes = [512, 512, 512, 512, 512])
  {HEADS.replace("4, 128", "8, 64")}
  r = transpose(reshape(r; shape = [128, 8, 64]); perm = [1, 0, 2])
  s = transpose(reshape(s; shape = [128, 8, 64]); perm = [1, 0, 2])
  q = q * cs + r * sn
  k = k * (cs * 0.125) + s * (sn * 0.125)
  {BEST}
"""

HALVES = "weight cs : f32[128, 32]\nweight sn : f32[128, 32]"
PAIRS = "weight cs : f32[128, 32, 1]\nweight sn : f32[128, 32, 1]"


def turned_halves(c: str, low: str, high: str) -> str:
    """Rotary position embeddings whose halves are computed apart."""
    return f"(a, b) = split({c}; axis = 2, sizes = [32, 32])\n{c} = concat({low}, {high}; axis = 2)"


def turned_pairs(c: str) -> str:
    """Rotary position embeddings that turn neighbours."""
    return (
        f"(a, b) = split(reshape({c}; shape = [8, 128, 32, 2]); axis = 3, sizes = [1, 1])\n"
        f"{c} = reshape(concat(a * cs - b * sn, a * sn + b * cs; axis = 3); shape = [8, 128, 64])"
    )


#: By hand, for pairs: turned columns of the weights, and numbers for both of a pair.
ROTARY_PAIRS = f"""
  (q1, q2) = split(reshape(wq; shape = [512, 256, 2]); axis = 2, sizes = [1, 1])
  (k1, k2) = split(reshape(wk; shape = [512, 256, 2]); axis = 2, sizes = [1, 1])
  wr = reshape(concat(neg(q2), q1; axis = 2); shape = [512, 512])
  ws = reshape(concat(neg(k2), k1; axis = 2); shape = [512, 512])
  cs = reshape(concat(cs, cs; axis = 2); shape = [128, 64])
  sn = reshape(concat(sn, sn; axis = 2); shape = [128, 64])
  {ROTARY[ROTARY.index("m = x @") :]}"""
ROTARY_HALVES = f"""
  c = concat(cs, cs; axis = 1)
  s = concat(sn, sn; axis = 1)
  {ROTARY.replace("cs", "c").replace("sn", "s * 1.0")}"""

MASKED = """input x : f32[1, 128, 512]
weight wq : f32[512, 512]
weight wk : f32[512, 64]
weight wv : f32[512, 64]
weight wo : f32[512, 512]
"""


def masked(scores: str) -> str:
    """One head of keys in a batch of one, with a mask."""
    return f"""
  q = transpose(reshape(x @ wq; shape = [1, 128, 8, 64]); perm = [0, 2, 1, 3])
  k = reshape(x @ wk; shape = [1, 1, 128, 64])
  v = reshape(x @ wv; shape = [1, 1, 128, 64])
  s = q @ transpose(k; perm = [0, 1, 3, 2])
  y = transpose(softmax({scores}; axis = 3) @ v; perm = [0, 2, 1, 3])
  output reshape(y; shape = [1, 128, 512]) @ wo
"""


def token_by_token(scores: str) -> str:
    """By hand: the queries of a token are rows of one product."""
    return f"""
  x = reshape(x; shape = [128, 512])
  (q, k, v) = split(x @ concat(wq * 0.125, wk, wv; axis = 1); axis = 1, sizes = [512, 64, 64])
  s = reshape(reshape(q; shape = [1024, 64]) @ transpose(k; perm = [1, 0]); shape = [128, 8, 128])
  p = reshape(softmax({scores}; axis = 2); shape = [1024, 128])
  output reshape(reshape(p @ v; shape = [128, 512]) @ wo; shape = [1, 128, 512])
"""


EARLY = "\n".join(
    f"{c} = expand(reshape(x @ w{c}; shape = [128, 2, 1, 64]); shape = [128, 2, 4, 64])\n"
    f"{c} = transpose(reshape({c}; shape = [128, 8, 64]); perm = [1, 0, 2])"
    for c in "kv"
)
SPELLINGS = {
    "heads of any products, in a batch of one": (
        "input p : f32[1, 8, 64, 64]\ninput v : f32[1, 8, 64, 64]\nweight wo : f32[512, 512]",
        "output reshape(transpose(relu(p) @ v; perm = [0, 2, 1, 3]); shape = [64, 512]) @ wo",
        """
  y = transpose(v; perm = [0, 1, 3, 2]) @ transpose(relu(p); perm = [0, 1, 3, 2])
  output transpose(reshape(y; shape = [512, 64]); perm = [1, 0]) @ wo
""",
    ),
    "rotary positions by halves": (
        f"{INPUTS}\n{HALVES}",
        f"{SEPARATE}{HEADS.replace('4, 128', '8, 64')}\n"
        f"{turned_halves('q', 'a * cs - b * sn', 'b * cs + a * sn')}\n"
        f"{turned_halves('k', 'cs * a - sn * b', 'sn * a + cs * b')}\n"
        f"{ATTEND.format(scale=' / 8.0')}\n{JOIN}",
        ROTARY_HALVES,
    ),
    "rotary positions the other way": (
        f"{INPUTS}\n{HALVES}",
        f"{SEPARATE}{HEADS.replace('4, 128', '8, 64')}\n"
        f"{turned_halves('q', 'a * cs + b * sn', 'b * cs - a * sn')}\n"
        f"{turned_halves('k', 'b * sn + a * cs', 'b * cs - a * sn')}\n"
        f"{ATTEND.format(scale=' / 8.0')}\n{JOIN}",
        ROTARY_HALVES,
    ),
    "rotary positions by pairs": (
        f"{INPUTS}\n{PAIRS}",
        f"{SEPARATE}{HEADS.replace('4, 128', '8, 64')}\n{turned_pairs('q')}\n{turned_pairs('k')}\n"
        f"{ATTEND.format(scale=' / 8.0')}\n{JOIN}",
        ROTARY_PAIRS,
    ),
    "a mask that selects": (
        MASKED + "weight mask : bool[128, 128]",
        masked("select(mask, s / 8.0, -1e9)"),
        token_by_token("select(reshape(mask; shape = [128, 1, 128]), s, -1e9)"),
    ),
    "a mask that is filled": (
        MASKED + "weight mask : bool[1, 1, 128, 128]",
        masked("select(mask, -1e9, s / 8.0)"),
        token_by_token("select(reshape(mask; shape = [128, 1, 128]), -1e9, s)"),
    ),
    "a scale after the mask": (
        MASKED + "weight mask : bool[1, 1, 1, 128]",
        masked("select(mask, s, -1e9) / 8.0"),
        token_by_token("select(reshape(mask; shape = [1, 1, 128]), s, -1e9)"),
    ),
    "padding": (
        MASKED + "input mask : f32[1, 1, 1, 128]",
        masked("s / 8.0 + mask"),
        token_by_token("s + reshape(mask; shape = [1, 1, 128])"),
    ),
    "a mask of inputs": (
        MASKED + "input mask : f32[1, 128, 128]",
        masked("s / 8.0 + mask"),
        token_by_token("s + reshape(mask; shape = [128, 1, 128])"),
    ),
    "distances for each head": (
        MASKED + "weight far : f32[8, 128, 128]",
        masked("s / 8.0 + far"),
        token_by_token("s + transpose(far; perm = [1, 0, 2])"),
    ),
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
    "rotary positions": (
        f"{INPUTS}\n{TURNED}",
        f"{SEPARATE}{HEADS.replace('4, 128', '8, 64')}\n{turned('q')}\n{turned('k')}\n"
        f"{ATTEND.format(scale=' / 8.0')}\n{JOIN}",
        ROTARY,
    ),
    "one head of keys, repeated": (shared(1), repeated(1), of_groups(1)),
    "one head of keys, broadcast": (shared(1), broadcast(1), of_groups(1)),
    "two heads of keys, repeated": (shared(2), repeated(2), of_groups(2)),
    "two heads of keys, broadcast": (shared(2), broadcast(2), of_groups(2)),
    "two heads of keys, repeated before they are apart": (
        shared(2),
        "q = transpose(reshape(x @ wq; shape = [128, 8, 64]); perm = [1, 0, 2])\n"
        f"{EARLY}\n{ATTEND.format(scale=' / 8.0')}\n{JOIN}",
        of_groups(2),
    ),
    "one head of keys, with a mask": (
        shared(1),
        repeated(1, " + mask"),
        of_groups(1, " + reshape(mask; shape = [128, 1, 128])"),
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
