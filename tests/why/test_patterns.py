"""Matching node by node finds what the engine finds, for every rule of the library on drawn graphs."""

from __future__ import annotations

import pytest

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.expression import calls_of
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.targets import target_of
from tensat_dl.rewrite.classes import EGraphTerms, graph_terms
from tensat_dl.rewrite.matcher import Pattern
from tensat_dl.rewrite.variants import Checks
from tensat_dl.why.ledger import SOURCE, Ledger
from tensat_dl.why.misses import look, look_for_members
from tensat_dl.why.whynot import patterns
from tests.explore.graphs import explored, graph_of, library, rules_named
from tests.explore.test_engine_against_reference import RULES, drawn_graph

pytestmark = pytest.mark.sampled(20)

#: Rules that ask for numbers of factors are applied until they have no more matches in one iteration.
BOUNDED = {n for n, r in RULES.items() if any(c.fn == "factors" for c in calls_of(r.conditions))}
ONE_STEP = [n for n, r in RULES.items() if r.kind == "single" and n not in BOUNDED]
PAIRS = [n for n, r in RULES.items() if r.kind == "multi"]


def applied_once(rule: RewriteRule, graph: Graph) -> tuple[int, int, int]:
    """E-nodes and e-classes after applying a rule wherever it matches a graph, and how often that is."""
    ops = library().ops
    terms = graph_terms(graph, ops)
    types = dict(terms.types)
    ledger = Ledger(dict.fromkeys(range(1), types[0]))  # all nodes have one label: they may be joined freely
    nodes: list[int] = []
    for n in graph.nodes:
        nodes.append(ledger.add(n.op, n.attrs, tuple(nodes[j] for j in n.inputs), 0, SOURCE))
    checks = Checks(ops)
    fires = [(p.rule, match) for p in patterns(rule, terms, ops) for match in look([p], terms).fires]
    for one, match in fires:
        variant = checks.at(one, match.tensors, match.attrs, terms)
        assert variant is not None
        target = target_of(one, dict(match.tensors), variant, terms, ops, nested=False)
        built = {name: nodes[c] for name, c in match.tensors.items()}
        for o in target.operators:
            built[o.result] = ledger.add(o.op, o.attrs, tuple(built[a] for a in o.args), 0, 1)
        for s, t in target.outputs:
            ledger.union(nodes[match.tensors[s]], built[t], 1)
    unite_commuted(ledger)
    classes = {ledger.find(n) for n in range(len(ledger.op))}
    return sum(len(ledger.members[c]) for c in classes), len(classes), len(fires)


def unite_commuted(ledger: Ledger) -> None:
    """Unites nodes that differ in the order of commutative operands alone, and all that follows from that."""
    changed = True
    while changed:
        changed = False
        for n, op in enumerate(ledger.op):
            if library().ops[op].commutative:
                other = ledger.lookup((op, ledger.attrs[n], ledger.operands[n][::-1]))
                changed |= other is not None and ledger.union(n, other, 1)


@pytest.mark.parametrize("name", sorted(ONE_STEP))
def test_a_rule_fires_where_the_engine_fires_it(name: str) -> None:
    rule = RULES[name]
    graph = drawn_graph(rule)
    nodes, classes, fires = applied_once(rule, graph)
    egraph = explored(graph, (rule,), Limits(nodes=10**6, iterations=1, k_multi=1))
    assert fires > 0
    assert (nodes, classes) == (egraph.num_nodes, egraph.num_classes)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_what_the_engine_applied_a_pair_rule_to_is_a_match(name: str) -> None:
    rule = RULES[name]
    graph = drawn_graph(rule)
    explorer = Explorer(graph, library().ops, (rule,), Limits(nodes=10**6, iterations=1))
    assert list(explorer.run())
    applied = explorer.history().applied
    terms = graph_terms(graph, library().ops)
    found = look(patterns(rule, terms, library().ops), terms)
    fires = [set(match.tensors.items()) for match in found.fires]
    assert applied
    assert all(any(set(a.shared) <= fire for fire in fires) for a in applied)


@pytest.mark.parametrize("name", sorted(RULES))
def test_matches_are_found_again_in_the_e_graph(name: str) -> None:
    rule = RULES[name]
    graph = drawn_graph(rule)
    ops = library().ops
    before = graph_terms(graph, ops)
    egraph: EGraph = explored(graph, (), Limits())
    after = EGraphTerms(egraph, graph, ops)
    counts = [
        (len(found.fires), len(found.failed))
        for terms in (before, after)
        for found in [look(patterns(rule, terms, ops), terms, nearly=False)]
    ]
    assert counts[0] == counts[1]


GROUP = """
  input x : f32[4, 8]
  input z : f32[4, 8]
  weight u : f32[8, 3]
  weight v : f32[8, 5]
"""


@pytest.mark.parametrize(
    ("body", "merges"),
    [
        ("output x @ u, x @ v", True),
        ("output x @ u, z @ v", False),
        ("output x @ u, matmul(x, v; act = relu)", False),
        ("weight w : f32[3, 8]\n y = x @ u\n output y, y @ w @ v", False),
        ("output x @ u", False),
        ("input w : f32[3, 3]\n output x @ u, x @ u @ w", False),
    ],
)
def test_groups_are_found_as_by_the_engine(body: str, merges: bool) -> None:
    (rule,) = rules_named("group-matmul-left")
    graph = graph_of(GROUP + body)
    terms = graph_terms(graph, library().ops)
    found = look_for_members(Pattern(rule, library().ops), terms)
    assert bool(found.groups) == merges
    assert (explored(graph, (rule,)).num_nodes > len(graph.nodes)) == merges
