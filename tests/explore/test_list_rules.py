"""Rules that take lists of operands: the engine against plain Python, and the lengths that it compiles them for."""

from __future__ import annotations

import pytest

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.declarations import WIDE
from tests.explore.graphs import explored, graph_in, graph_of, program_of, rules_named, steps_of
from tests.explore.test_engine_against_reference import agree

RULES = program_of("""
rule into { f = tanh(concat(xs[..]; axis = k)) => f = concat(tanh(xs[i]) for i in 0..len(xs); axis = k) }
rule out-of { concat(tanh(xs[i]) for i in 0..len(xs); axis = k) => tanh(concat(xs[..]; axis = k)) }
rule one-more { concat(concat(xs[..]; axis = k), y; axis = k) => concat(xs[..], y; axis = k) }
rule other-axis {
  softmax(concat(xs[..]; axis = k); axis = j)
  where j != k
  =>
  concat(softmax(xs[i]; axis = j) for i in 0..len(xs); axis = k)
}
rule two-lists {
  concat(ewsub(a[j], b[j]) for j in 0..len(b); axis = k)
  <=>
  ewsub(concat(a[..]; axis = k), concat(b[..]; axis = k))
  where rank(a[j]) == rank(b[j])
}
rule mixed-ranks {
  concat(ewsub(a[i], b[i]) for i in 0..len(a); axis = k)
  =>
  concat(ewadd(a[i], smul(b[i], -1.0)) for i in 0..len(a); axis = k)
}
rule weights {
  concat(smul(w[i], s) for i in 0..len(w); axis = k)
  where weight(w[i]), not weight(s)
  =>
  smul(concat(w[..]; axis = k), s)
}
rule shared {
  concat(matmul(x, w[i]; act = f) for i in 0..len(w); axis = 1)
  =>
  matmul(x, concat(w[..]; axis = 1); act = f)
}
rule sizes {
  slice(concat(xs[..]; axis = k); axis = k, start = 0, stop = sum([dim(xs[i], k) for i in 0..len(xs)]))
  => concat(xs[..]; axis = k)
}
rule enough {
  concat(tanh(xs[i]) for i in 0..len(xs); axis = k)
  where len(xs) >= 3, all(dim(xs[i], k) == dim(xs[0], k) for i in 0..len(xs))
  => tanh(concat(xs[..]; axis = k))
}
rule at-once {
  a = tanh(concat(xs[..]; axis = k))
  b = relu(concat(xs[..]; axis = k))
  =>
  c = concat(xs[..]; axis = k)
  a = tanh(c)
  b = ewmax(c, 0.0)
}
""").rules


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_the_engine_builds_what_the_concrete_evaluator_allows(
    rule: RewriteRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(rule, monkeypatch)


def named(name: str) -> RewriteRule:
    return next(r for r in RULES if r.name == name)


def applications(body: str, *names: str) -> dict[str, int]:
    """How often rules are applied to a graph."""
    steps = steps_of(graph_of(body), [named(n) for n in names])
    found = [s for step in steps for s in step.iteration.rules]
    return {n: sum(s.applied for s in found if s.rule == n) for n in names}


@pytest.mark.parametrize("length", [1, 2, 7, WIDE])
def test_one_rule_takes_lists_of_any_length(length: int) -> None:
    body = (
        f"for i in 0..{length} {{ input x[i] : f32[3]; y[i] = tanh(x[i]) }}\noutput concat(y[..]; axis = 0)"
    )
    assert applications(body, "out-of") == {"out-of": 1}


@pytest.mark.parametrize(("first", "others", "fires"), [("[3]", "[3]", 1), ("[2, 3]", "[3]", 0)])
def test_the_elements_of_a_list_have_one_rank(first: str, others: str, fires: int) -> None:
    body = f"""
    for i in 0..4 {{ input a[i] : f32[2, 3] }}
    for i in 0..2 {{ input b[i] : f32{first} }}
    for i in 2..4 {{ input b[i] : f32{others} }}
    for i in 0..4 {{ y[i] = a[i] - b[i] }}
    output concat(y[..]; axis = 0)
    """
    assert applications(body, "mixed-ranks") == {"mixed-ranks": fires}


def test_longer_lists_are_left_alone() -> None:
    body = (
        f"for i in 0..{WIDE + 1} {{ input x[i] : f32[3]; y[i] = tanh(x[i]) }}\noutput concat(y[..]; axis = 0)"
    )
    assert applications(body, "out-of") == {"out-of": 0}


def test_lengths_that_only_rules_make_are_taken_too() -> None:
    """Each application of `one-more` makes the longer concat that the next one takes."""
    body = """
    for i in 0..5 { input x[i] : f32[3] }
    a = concat(x[0], x[1]; axis = 0)
    b = concat(a, x[2]; axis = 0)
    c = concat(b, x[3]; axis = 0)
    output tanh(concat(c, x[4]; axis = 0))
    """
    graph = graph_of(body)
    steps = steps_of(graph, [named("one-more"), named("into")])
    whole = graph_of(
        "for i in 0..5 { input x[i] : f32[3]; y[i] = tanh(x[i]) }\noutput concat(y[..]; axis = 0)"
    )
    egraph = steps[-1].egraph
    assert max(len(egraph.children_of(n)) for n in range(egraph.num_nodes)) == 5
    operands = [n.op for n in whole.nodes].count("tanh")
    flat = [n for n in range(egraph.num_nodes) if len(egraph.children_of(n)) == operands]
    assert any(
        egraph.op[m] == "tanh" for n in flat for c in egraph.children_of(n) for m in egraph.nodes_of(c)
    )


def test_stats_and_origins_have_the_name_of_the_rule() -> None:
    steps = steps_of(
        graph_of("input x : f32[3]\noutput concat(tanh(x), tanh(x); axis = 0)"), [named("out-of")]
    )
    assert [s.rule for s in steps[1].iteration.rules] == ["out-of"]
    assert set(steps[-1].egraph.origin) == {"", "out-of"}


def test_lists_that_a_group_rule_makes() -> None:
    body = """
    input x : f32[4, 8]
    for i in 0..3 { weight w[i] : f32[8, 2]; y[i] = x @ tanh(w[i]) }
    output y[..]
    """
    rules = [named("out-of"), *rules_named("group-matmul-left")]
    egraph = steps_of(graph_of(body), rules)[-1].egraph
    assert any(rule == "out-of" for rule in egraph.origin)


def test_a_group_is_mapped_over_on_the_right() -> None:
    text = """
    rule merge {{
      each i: y[i] = matmul(x, w[i])
      =>
      {kernels}
      y[..] = split(matmul(x, wide); axis = 1, sizes = [dim(w[i], 1) for i in 0..len(w)])
    }}
    graph g {{
      input x : f32[4, 8]
      for i in 0..3 {{ weight w[i] : f32[8, 2]; y[i] = x @ w[i] }}
      output y[..]
    }}
    """
    mapped = program_of(text.format(kernels="wide = concat(relu(w[k]) for k in 0..len(w); axis = 1)"))
    stated = program_of(text.format(kernels="each i: v[i] = relu(w[i])\nwide = concat(v[..]; axis = 1)"))
    found = [explored(graph_in(p), p.rules) for p in (mapped, stated)]
    assert found[0].op == found[1].op
    assert "relu" in found[0].op


def test_an_operator_of_ones_own_takes_lists() -> None:
    program = program_of("""
    opaque op largest(x: tensor, ys: tensor..) { shape shape(x); flops prod(out) }
    rule twice { largest(x, largest(x, ys[..])) => largest(x, ys[..]) }
    graph g { input x : f32[3]; input y : f32[3]; input z : f32[3]; output largest(x, largest(x, y, z)) }
    """)
    assert program.rules[0].takes_lists
    egraph = explored(graph_in(program), program.rules, ops=program.ops)
    assert egraph.num_classes == 4
