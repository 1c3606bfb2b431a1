"""Rules are derived from others, never from themselves, and it is known from which."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensat_dl.engine.exploration import Limits
from tensat_dl.verify.prove.goals import DRAWS
from tensat_dl.verify.prove.prove import Prover
from tensat_dl.verify.rules.verdict import Status

from .proving import ADD, LIMITS, RELU, goals, program, prove

pytestmark = pytest.mark.sampled(3)

#: From associativity; sums commute by themselves.
REVERSED = "rule reversed { ewadd(x, ewadd(y, z)) => ewadd(z, ewadd(y, x)) }\n"
ASSOCIATED = """
rule associated { ewadd(ewadd(w, x), ewadd(y, z)) => ewadd(w, ewadd(ewadd(x, y), z)) }
"""
FALSE = "rule false { ewadd(x, relu(y)) => ewadd(relu(x), y) }\n"


def test_derived_and_from_what() -> None:
    """All rules share an e-graph first. Of the axioms those are named that are needed."""
    axioms = f"{ADD}{RELU}rule tanh {'{'} tanh(relu(x)) => relu(tanh(x)) {'}'}\n"
    twice = "rule twice { relu(relu(relu(x))) => relu(x) }\n"
    proofs = prove(REVERSED + ASSOCIATED + twice + FALSE, axioms)
    assert [(p.goal.rule, p.derived, p.axioms, p.stop) for p in proofs] == [
        ("reversed", True, ("add-assoc",), None),
        ("associated", True, ("add-assoc",), None),
        ("twice", True, ("relu-relu",), None),
        ("false", False, (), "saturated"),
    ]
    assert all(len(p.goal.pairs) == 3 for p in proofs)
    assert proofs[-1].missed == proofs[-1].goal.pairs[0]


def test_axioms_are_used_in_the_direction_that_they_have() -> None:
    back = "rule back { relu(x) => relu(relu(x)) }\n"
    assert prove(back, RELU)[0].derived  # both sides are there to be rewritten
    nested = "rule {0} {{ matmul(matmul(x, y), z) => matmul({1}) }}"
    assert not prove(nested.format("other", "x, matmul(z, y)"), nested.format("one", "x, matmul(y, z)"))[
        0
    ].derived


@pytest.mark.parametrize(
    ("status", "axioms"),
    [
        ({"one": "tested", "two": "proved"}, ("two",)),
        ({"one": "proved", "two": "tested"}, ("one",)),
        ({"one": "refuted", "two": "proved"}, ("two",)),
        ({"one": "refuted", "two": "tested"}, ("two",)),
        ({"one": "refuted", "two": "refuted"}, None),
    ],
)
def test_proved_axioms_are_preferred_and_false_ones_not_used(
    status: dict[str, Status], axioms: tuple[str, ...] | None
) -> None:
    given = program("rule one { relu(relu(x)) => relu(x) }\nrule two { relu(relu(x)) => relu(x) }\n")
    wanted = goals("rule three { relu(relu(relu(x))) => relu(x) }\n")
    (proof,) = Prover(given.rules, given.ops, LIMITS, status=status.__getitem__).run(wanted)
    assert (proof.axioms if proof.derived else None) == axioms


def test_no_rule_proves_itself() -> None:
    """Nor does its other direction; other rules of the same file do."""
    proofs = {p.goal.rule: p for p in prove(ADD + REVERSED, ADD + REVERSED)}
    assert proofs["reversed"].axioms == ("add-assoc",)
    assert proofs["add-assoc"].axioms == ("reversed",)
    alone = prove("rule both { relu(relu(x)) <=> relu(x) }", "rule both { relu(relu(x)) <=> relu(x) }")
    assert [(p.goal.rule, p.derived) for p in alone] == [("both", False), ("both-back", False)]


@pytest.mark.parametrize(("second", "derived"), [("relu(relu(x))", True), ("tanh(relu(x))", False)])
def test_every_output_counts(second: str, derived: bool) -> None:
    rule = "rule two { a = relu(y); b = " + second + " => a = relu(relu(y)); b = relu(x) }"
    assert prove(rule, RELU)[0].derived == derived


def test_list_rules() -> None:
    """They are proved for lists of several lengths, and prove others, for whatever length."""
    moved = "rule moved-{0} {{ concat({0}(x[i]) for i in 0..len(x); axis = k) => {0}(concat(x[..]; axis = k)) }}\n"
    both = """
    rule both {
      concat(relu(tanh(x[i])) for i in 0..len(x); axis = k) => relu(tanh(concat(x[..]; axis = k)))
    }
    """
    axioms = moved.format("relu") + moved.format("tanh")
    (whole,) = goals(both, 6)
    assert whole.lengths == (1, 2, 3, 4)
    assert prove(both, axioms)[0].axioms == ("moved-relu", "moved-tanh")
    two = "rule moved-two { concat(relu(x), relu(y); axis = k) => relu(concat(x, y; axis = k)) }"
    assert prove(two, axioms)[0].axioms == ("moved-relu",)
    assert not prove(moved.format("relu"), two)[0].derived  # for lists of two alone


def test_group_rules() -> None:
    """They are proved for groups of several sizes, and prove others."""
    group = """
rule merge {
  each i: y[i] = relu(x[i])
  =>
  y[..] = split(
    relu(concat(x[..]; axis = 0)); axis = 0, sizes = [dim(x[i], 0) for i in 0..len(x)]
  )
}
"""
    (merged,) = goals(group, 6)
    assert {len(left.outputs) for left, _ in merged.pairs} == {2, 3, 4}
    pair = """
rule pair {
  a = relu(u)
  b = relu(v)
  =>
  (a, b) = split(relu(concat(u, v; axis = 0)); axis = 0, sizes = [dim(u, 0), dim(v, 0)])
}
"""
    assert prove(pair, group)[0].axioms == ("merge",)
    assert not prove(group, pair)[0].derived  # of two tensors, not of three


def test_a_rule_that_never_applies() -> None:
    (proof,) = prove("rule never { relu(x) where rank(x) < 0 => tanh(x) }", RELU)
    assert (proof.derived, proof.goal.pairs, proof.missed) == (False, (), None)


@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        (replace(LIMITS, nodes=5), "nodes"),
        (replace(LIMITS, iterations=1), "iterations"),
        (replace(LIMITS, seconds=0.0), "time"),
    ],
)
def test_limits(limits: Limits, stop: str) -> None:
    """A rule that is not found within the limits says which of them."""
    (proof,) = prove("rule sum { ewadd(ewadd(x, tanh(y)), z) => ewadd(y, x) }", ADD, limits)
    assert (proof.derived, proof.stop) == (False, stop)


def test_interrupted() -> None:
    """What is known by then stays known; nothing more is tried."""
    seen: list[str] = []

    def interrupt(what: str, detail: str) -> None:
        seen.append(what)
        if what == "false" and detail:
            raise KeyboardInterrupt

    proofs = prove(REVERSED + FALSE + ASSOCIATED, ADD, progress=interrupt)
    assert [(p.goal.rule, p.derived, p.stop) for p in proofs] == [
        ("reversed", True, None),
        ("false", False, "interrupted"),
        ("associated", True, None),  # the e-graph of all showed it
    ]
    assert proofs[0].axioms == ("add-assoc",)
    assert proofs[2].axioms == ()
    assert seen[-1] == "false"


def test_assignments_differ() -> None:
    """Convolutions with one group and with several, tensors of several ranks: few assignments show them all."""
    (conv,) = goals("rule c { relu(conv2d(x, w)) => conv2d(x, w; act = relu) }", 4)
    groups = set()
    for left, _ in conv.pairs:
        types = {n.name: n.type.shape for n in left.nodes if n.op == "input"}
        groups.add(types["x"][1] == types["w"][1])
    assert groups == {True, False}
    (relu,) = goals(RELU, 5)
    assert len({left.nodes[0].type.rank for left, _ in relu.pairs}) >= 3
    (again,) = goals(RELU, 5)
    assert again == relu  # the same every time
    (many,) = goals(RELU, DRAWS + 6)
    assert len(set(many.pairs)) == len(many.pairs) > DRAWS
