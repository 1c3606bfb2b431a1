"""A variable for a word in an attribute with other words: targets are built for the words that both have, alone."""

from __future__ import annotations

import pytest

from tensat_dl.engine.exploration import Limits
from tests.explore.graphs import explored, graph_in, program_of

POOLED = (
    """
graph pooled {
  input x: f32[1, 4, 8, 8]
  weight w: f32[4, 4, 1, 1]
  weight v: f32[4, 4, 1, 1]
"""
    + "".join(
        f"""
  {act}_0 = poolmax(conv2d(x, w; act = {act}); kernel = 1)
  {act}_1 = poolmax(conv2d(x, v; act = {act}); kernel = 1)
  output {act}_0, {act}_1
"""
        for act in ("none", "relu", "sigmoid", "tanh", "gelu")
    )
    + "}"
)

SINGLE = "rule r { poolmax(conv2d(x, w; act = f); kernel = 1) => poolmax(conv2d(x, w); kernel = 1, act = f) }"
EITHER = SINGLE.replace(" =>", " where f == gelu or f == relu =>")
LET = SINGLE.replace("=> ", "=> g = f; ").replace("act = f) }", "act = g) }")
MULTI = """rule r {
  a = conv2d(x, w; act = f)
  b = conv2d(x, v; act = f)
  =>
  m = poolmax(conv2d(x, concat(w, v; axis = 0)); kernel = 1, act = f)
  (a, b) = split(m; axis = 1, sizes = [dim(w, 0), dim(v, 0)])
}"""
GROUP = """rule r {
  each i: y[i] = conv2d(x, w[i]; act = f)
  =>
  m = poolmax(conv2d(x, concat(w[..]; axis = 0)); kernel = 1, act = f)
  y[..] = split(m; axis = 1, sizes = [dim(u, 0) for u in w])
}"""
SHARED = {"none", "relu", "sigmoid", "tanh"}


def words_of(attr: str, op: str, text: str) -> set[str]:
    """What an attribute of an operator is in the e-graph of a program's graph."""
    program = program_of(text)
    egraph = explored(graph_in(program), program.rules, Limits(iterations=2), program.ops)
    return {dict(a)[attr] for a, name in zip(egraph.attrs, egraph.op, strict=True) if name == op}


@pytest.mark.parametrize(
    ("rule", "words"),
    [(SINGLE, SHARED), (LET, SHARED), (EITHER, {"none", "relu"}), (MULTI, SHARED), (GROUP, SHARED)],
    ids=["single", "let", "either", "multi", "group"],
)
def test_a_target_has_words_of_its_own_attribute(rule: str, words: set[str]) -> None:
    assert words_of("act", "poolmax", rule + POOLED) == words


def test_a_string_may_be_a_word() -> None:
    tags = ("relu", "elu", "none|relu", "", "gelu")
    text = """
opaque op tagged(x: tensor; tag: string) { shape shape(x) }
rule r { tagged(x; tag = s) => matmul(x, x; act = s) }
graph g {
  input x: f32[4, 4]
""" + "".join(f'  t{i} = tagged(x; tag = "{tag}")\n  output t{i}\n' for i, tag in enumerate(tags))
    assert words_of("act", "matmul", text + "}") == {"relu", "gelu"}
