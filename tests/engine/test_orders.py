"""Patterns are matched modulo commutativity, by the engine and by the matcher in Python alike."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tensat_dl import resources
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.rewrite.classes import graph_terms
from tensat_dl.rewrite.matcher import Pattern
from tensat_dl.rewrite.orders import commuted, either_order, mirror_form
from tensat_dl.verify.exact.compare import compare_exactly, compare_modular
from tests.explore.graphs import explored, graph_in, library, pack, program_of
from tests.verify.making import Maker

COMMUTATIVE = sorted(name for name, decl in library().ops.items() if decl.commutative)
PACKS = sorted(p.stem for p in resources.rules().glob("*.tsr") if p.stem not in ("ops", "taso"))

GATE = "rule gate { (1.0 - z) * n + z * h => n + z * (h - n) }"


def rule_of(text: str) -> RewriteRule:
    program = program_of(text)
    (rule,) = (r for r in program.rules if r.declared in program.own_rules)
    return rule


def spellings() -> list[str]:
    """Each order of the operands of the sum and of both products."""

    def both(x: str, y: str, op: str) -> list[str]:
        return [f"({x} {op} {y})", f"({y} {op} {x})"]

    terms = product(both("(1.0 - z)", "n", "*"), both("z", "h", "*"))
    return [s for a, b in terms for s in both(a, b, "+")]


@pytest.mark.parametrize("spelling", spellings())
def test_a_rule_fires_in_every_order(spelling: str) -> None:
    inputs = "".join(f"input {name} : f32[2, 3]; " for name in "znh")
    program = program_of(f"{GATE}\ngraph g {{ {inputs} output {spelling} }}")
    graph = graph_in(program)
    egraph = explored(graph, program.rules)
    ops = [egraph.op[n] for n in egraph.nodes_of(egraph.roots[0])]
    assert sorted(ops) == ["ewadd", "ewadd"]  # the sum of the source, and that of the target
    assert len(list(Pattern(rule_of(GATE), program.ops).matches(graph_terms(graph, program.ops)))) == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("rule r { x + y => relu(x + y) - relu(x) }", 1),
        ("rule r { x + y => ewmax(x, y) + ewmin(x, y) }", 0),
        ("rule r { s * x + s * y => s * (x + y) }", 2),
        ("rule r { x * x => power(x; exponent = 2.0) }", 0),
        ("rule r { ewadd(x, y) => ewadd(y, x) + 0.0 }", 0),
        ("rule r { x - y => x + neg(y) }", 0),
    ],
)
def test_only_orders_that_say_something_new_are_matched(text: str, count: int) -> None:
    assert len(either_order(rule_of(text), library().ops)) == count


def test_nodes_that_differ_in_the_order_alone_are_one_class() -> None:
    program = program_of("graph g { input x : f32[2]; input y : f32[2]; output x * y, y * x, x - y, y - x }")
    egraph = explored(graph_in(program), ())
    a, b, c, d = egraph.roots
    assert a == b
    assert c != d


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("op", COMMUTATIVE)
def test_commutative_operators_commute(op: str, dtype: str) -> None:
    """In NumPy and in exact arithmetic; where both operands are the same number, too."""
    rng = np.random.default_rng(0)
    values = np.asarray([-3, -1, 0, 0, 1, 2, 7], {"f": "float", "i": "int"}[dtype[0]] + dtype[1:])
    x, y = rng.choice(values, (2, 5, 4))
    np.testing.assert_array_equal(SEMANTICS[op](x, y), SEMANTICS[op](y, x))
    graphs = []
    for order in (slice(None), slice(None, None, -1)):
        g = Maker()
        operands = [g.input("x", 2, 3, dtype=dtype), g.input("y", 3, dtype=dtype)]
        graphs.append(g.graph(y=g.op(op, *operands[order])))
    assert compare_exactly(graphs[0], graphs[1], library().ops).status == "equal"
    assert compare_modular(graphs[0], graphs[1], library().ops).status == "equal"


@pytest.mark.parametrize("name", PACKS)
def test_no_rule_of_a_pack_is_the_mirror_image_of_another(name: str) -> None:
    forms: dict[object, str] = {}
    for rule in pack(name):
        form = mirror_form(rule, library().ops)
        assert form is not None
        assert forms.setdefault(form, rule.name) == rule.name


def test_rules_in_other_words_have_one_form() -> None:
    ops = library().ops
    a = rule_of("rule a { p = relu(x) * y\n z = p + w\n where rank(y) == 2 => z = w + y * relu(x) - 0.0 }")
    b = rule_of("rule b { v = q + n * relu(m)\n where rank(n) == 2 => v = n * relu(m) + q - 0.0 }")
    c = rule_of("rule c { v = q + n * relu(m)\n where rank(m) == 2 => v = n * relu(m) + q - 0.0 }")
    assert mirror_form(a, ops) == mirror_form(b, ops) != mirror_form(c, ops)


@pytest.mark.parametrize("op", COMMUTATIVE)
def test_the_rule_that_explanations_show(op: str) -> None:
    rule = commuted(library().ops[op])
    (source,), (target,) = rule.source.nodes, rule.target.nodes
    assert (source.op, target.op) == (op, op)
    assert source.args == target.args[::-1] != target.args
