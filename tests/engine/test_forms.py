"""The forms of e-nodes: everything that an exploration makes has one, and rules are compiled for no others."""

from __future__ import annotations

import pytest

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.syntax import EgglogRule
from tensat_dl.rewrite.source import Form, Forms, form_of, forms_in
from tests.explore.graphs import graph_in, graph_of, library, pack, program_of, rules_named

pytestmark = pytest.mark.sampled(2)

SIBLINGS = """
  input x : f32[4, 8]
  weight u : f32[8, 2]
  weight v : f32[8, 3]
  weight b : f32[3]
  output relu(x @ u), tanh(x @ v + b), transpose(x; perm = [1, 0])
"""
CONVOLUTIONS = """
  input x : f32[1, 4, 6, 6]
  weight u : f32[4, 2, 3, 3]
  weight v : f32[6, 2, 3, 3]
  weight s : f32[1]
  output conv2d(x, u; pads = same) * s, relu(conv2d(x, v; pads = same))
"""


@pytest.mark.parametrize("body", [SIBLINGS, CONVOLUTIONS], ids=["products", "convolutions"])
def test_every_node_has_a_known_form(body: str) -> None:
    graph, ops = graph_of(body), library().ops
    explorer = Explorer(graph, ops, pack("standard"), Limits(iterations=8))
    *_, last = explorer.run()
    e = last.egraph
    for n in range(e.num_nodes):
        operands = [e.types[c][0].rank for c in e.children_of(n)]
        form = form_of(ops[e.op[n]], operands, e.types[e.node_class[n]][0].rank, dict(e.attrs[n]))
        assert form in explorer.program.forms, e.op[n]
    assert e.num_nodes > len(graph.nodes) + 5


def test_forms_are_followed_through_rules() -> None:
    """A rule that builds what another one matches: both are compiled, for the ranks that come up alone."""
    program = program_of("""
      rule flatten {
        relu(x) where rank(x) == 2
        =>
        reshape(tanh(reshape(x; shape = [dim(x, 0) * dim(x, 1)])); shape = shape(x))
      }
      rule after { tanh(x) => neg(neg(tanh(x))) }
      rule never { sigmoid(x) => neg(x) }
      graph g { input x : f32[2, 3]
        output relu(x) }
    """)
    rules = [r for r in program.rules if r.name in ("flatten", "after", "never")]
    compiled = EgglogProgram(program.ops, rules, graph_in(program))
    compiled.everything()
    assert [r.name for r in compiled.current()] == ["flatten", "after"]
    found = {f for known in (compiled.forms.known or {}).values() for f in known}
    assert {f for f in found if f.op in ("tanh", "neg")} == {Form("tanh", (1,), 1), Form("neg", (1,), 1)}


def test_rules_are_compiled_for_what_applied_rules_bring() -> None:
    program = program_of("""
      rule flatten { tanh(x) where rank(x) == 3
        => reshape(tanh(reshape(x; shape = [dim(x, 0), 6])); shape = shape(x)) }
      rule after { tanh(x) => neg(neg(tanh(x))) }
      rule last { neg(x) => smul(x, -1.0) }
      graph g { input x : f32[2, 2, 3]
        output tanh(x) }
    """)
    flatten, after, last = (
        next(r for r in program.rules if r.name == name) for name in ("flatten", "after", "last")
    )
    engine = EgglogProgram(program.ops, [flatten, after, last], graph_in(program))

    def compiled(rule: RewriteRule) -> int:
        """How many egglog rules there are of a rule."""
        found, _ = engine.compiled(rule)
        return 0 if found is None else sum(isinstance(c, EgglogRule) for c in found.commands)

    assert [compiled(r) for r in (flatten, after, last)] == [1, 1, 0]
    assert engine.compiled(after)[1] == []  # nothing is new
    engine.built(flatten)
    assert [compiled(r) for r in (flatten, after, last)] == [1, 2, 0]  # tanh of a matrix
    engine.built(after)
    assert [compiled(r) for r in (flatten, after, last)] == [1, 2, 2]


def test_known_forms_leave_out_nothing_that_has_one() -> None:
    """The variants for some forms are those of all variants whose nodes have these forms."""
    (rule,) = rules_named("matmul-assoc")
    schema = Schema(library().ops)
    every = schema.variants(rule, Forms((1, 2, 3)))
    known = Forms.of((1, 2, 3), [Form("matmul", (3, 3), 3), Form("matmul", (2, 2), 2)])
    some = schema.variants(rule, known)
    ranks = [sorted({len(t.shape) for t in v.types.values()}) for v in some]
    assert ranks == [[2], [3]]
    assert all(any(v is w for w in every) for v in some)


def test_known_forms_leave_out_axes_that_no_node_has() -> None:
    (rule,) = rules_named("slice-slice")
    schema = Schema(library().ops)
    for axes in ((1,), (0, 2)):
        known = Forms.of((3,), [Form("slice", (3,), 3, (axis,)) for axis in axes])
        found = [v for v in schema.variants(rule, known) if not v.ill_typed]
        assert [v.chosen["k"] for v in found] == list(axes)


def test_an_axis_that_a_match_computes_may_be_any() -> None:
    program = program_of("""
      rule turn {
        softmax(slice(x; axis = 0, start = s, stop = e); axis = 0) where s < rank(x)
        => softmax(slice(x; axis = 0, start = s, stop = e); axis = s)
      }
      rule last { softmax(x; axis = 1) => neg(neg(softmax(x; axis = 1))) }
      graph g { input x : f32[2, 3]
        output softmax(slice(x; axis = 0, start = 1, stop = 2); axis = 0) }
    """)
    turn, last = (next(r for r in program.rules if r.name == name) for name in ("turn", "last"))
    engine = EgglogProgram(program.ops, [turn, last], graph_in(program))
    assert engine.compiled(last)[0] is None
    assert engine.compiled(turn)[0] is not None
    engine.built(turn)
    assert engine.compiled(last)[0] is not None


def test_a_group_rule_may_build_lists_of_any_length() -> None:
    """Also where there is one of a known length."""
    program = program_of("""
      rule merge {
        each i: y[i] = matmul(x[i], w)
        =>
        m = matmul(concat(x[..]; axis = 0), w)
        y[..] = split(m; axis = 0, sizes = [dim(x[i], 0) for i in 0..len(x)])
      }
      rule three { concat(a, b, c; axis = 0) => concat(concat(a, b; axis = 0), c; axis = 0) }
      graph g { input x : f32[2, 3]
        input y : f32[2, 3]
        weight w : f32[3, 4]
        output matmul(x, w), matmul(y, w), concat(x, x; axis = 0) }
    """)
    merge, three = (next(r for r in program.rules if r.name == name) for name in ("merge", "three"))
    engine = EgglogProgram(program.ops, [merge, three], graph_in(program))
    assert engine.compiled(three)[0] is None
    engine.everything()
    assert engine.compiled(three)[0] is not None


def test_operands_of_a_variadic_operator_count_once() -> None:
    graph = graph_of("input x : f32[2, 3]\n output concat(x, x, x; axis = 0)")
    assert forms_in(graph, library().ops) == {Form("input", (), 2), Form("concat", (2,), 2, (0,), 3)}
