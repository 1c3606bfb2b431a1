"""Mutated programs: whatever the text, a run ends with a documented exit code and never with a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from .running import invoke

pytestmark = pytest.mark.sampled(4)

PROGRAMS = {
    "pair": """rule merge {
  left = matmul(x, a; act = f)
  right = matmul(x, b; act = f)
  where dim(a, 1) >= 2
  =>
  y = matmul(x, concat(a, b; axis = 1); act = f)
  (left, right) = split(y; axis = 1, sizes = [dim(a, 1), dim(b, 1)])
}
graph g {
  input x : f32[4, 8]
  weight a : f32[8, 2]
  weight b : f32[8, 6]
  output tanh(x @ a), sigmoid(x @ b)
}
""",
    "several": """opaque op top(x: tensor; k: int = 2) -> (values, places) {
  require k > 0 : "k is positive"
  shape values = set(shape(x), 0, k)
  shape places = set(shape(x), 0, k)
}
op gemm(x: tensor, w: tensor, c: tensor) = x @ w + c
rule idempotent { relu(relu(x)) => relu(x) }
rule exponents { exp(x) * exp(y) <=> exp(x + y) }
block layer(x, w; n: int = 2) { for i in 0..n { x = relu(x @ w) }; return x }
graph g {
  input x : f32[4, 4]
  weight w : f32[4, 4]
  weight s : f32[] = 0.5
  y = layer(x, w; n = 3)
  (a, b) = top(exp(y) * exp(x); k = 3)
  output a * s, transpose(b; perm = [1, 0]), reshape(relu(y); shape = [2, 8])
}
""",
}
TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9]+(?:\.[0-9]+)?|\s+|=>|<=>|==|\.\.|.", re.DOTALL)
WORDS = ["0", "-1", "1", "3", "2.5", "1e99", "999999999999", "x", "g", "f64", "i32", "bool", "relu", "split"]
WORDS += [
    "=>",
    "..",
    "[",
    ")",
    "}",
    ";",
    "@",
    "where",
    "for",
    "input",
    '"',
    "//",
    "é",
    "\n",
    "concat",
    "none",
]


def mutated(text: str, random: random.Random) -> str:
    """A few tokens dropped, doubled, swapped or replaced."""
    tokens = TOKEN.findall(text)
    for _ in range(random.randint(1, 3)):
        places = [i for i, t in enumerate(tokens) if not t.isspace()]
        i, j = random.choice(places), random.choice(places)
        match random.randrange(5):
            case 0:
                tokens[i] = ""
            case 1:
                tokens[i] = f"{tokens[i]} {tokens[i]}"
            case 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 3:
                tokens[i] = tokens[j]
            case _:
                tokens[i] = random.choice(WORDS)
    return "".join(tokens)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("name", PROGRAMS)
def test_mutated_programs(name: str, part: int, tmp_path: Path) -> None:
    path = tmp_path / "g.tsr"
    limits = ["--max-nodes", 100, "--max-iters", 2, "--time-limit", 2, "--extract-time-limit", 1]
    codes = []
    for seed in range(part * 20, part * 20 + 20):
        text = mutated(PROGRAMS[name], random.Random(seed))
        path.write_text(text, encoding="utf-8")
        done = invoke("run", path, "-o", tmp_path / "out.tsr", *limits)
        assert done.code in (0, 1, 2, 3), f"{text}\n{done.err}"
        assert "Traceback" not in done.err
        assert done.code == 0 or "error: " in done.err, f"{text}\n{done.err}"
        codes.append(done.code)
    assert 2 in codes


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_are_valid(name: str, tmp_path: Path) -> None:
    """Else their mutations would show little."""
    path = tmp_path / "g.tsr"
    path.write_text(PROGRAMS[name], encoding="utf-8")
    assert invoke("run", path, "-q").code == 0
