"""Equality and its reasons, against closing over and over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.graph import TensorType
from tensat_dl.why.ledger import SOURCE, Ledger

#: A term: a leaf, or an operator on terms before it; and unions of terms, by number.
Terms = list[tuple[str, tuple[int, ...]]]
Pairs = list[tuple[int, int]]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Terms, Pairs]:
    terms: Terms = [(name, ()) for name in "abcd"]
    for _ in range(draw(st.integers(0, 14))):
        count = draw(st.integers(1, 2))
        operands = draw(st.tuples(*[st.integers(0, len(terms) - 1)] * count))
        terms.append((draw(st.sampled_from("fg")), operands))
    node = st.integers(0, len(terms) - 1)
    return terms, draw(st.lists(st.tuples(node, node), max_size=8))


def naive(terms: Terms, pairs: Pairs) -> list[int]:
    """The class of each term, by looking at all pairs until nothing changes."""
    number = list(range(len(terms)))

    def join(i: int, j: int) -> bool:
        a, b = number[i], number[j]
        for k, c in enumerate(number):
            number[k] = a if c == b else c
        return a != b

    changed = True
    while changed:
        changed = sum(join(i, j) for i, j in pairs) > 0
        for i, (op, operands) in enumerate(terms):
            for j, (other, others) in enumerate(terms[:i]):
                same = [number[k] for k in operands] == [number[k] for k in others]
                if op == other and same:
                    changed |= join(i, j)
    return number


def ledger_of(terms: Terms, pairs: Pairs) -> tuple[Ledger, list[int]]:
    ledger = Ledger({0: TensorType("f32", ())})
    nodes: list[int] = []
    for op, operands in terms:
        nodes.append(ledger.add(op, (), tuple(nodes[k] for k in operands), 0, SOURCE))
    for why, (i, j) in enumerate(pairs):
        ledger.union(nodes[i], nodes[j], why)
    return ledger, nodes


@given(problems())
def test_classes_are_closed_under_congruence(problem: tuple[Terms, Pairs]) -> None:
    terms, pairs = problem
    ledger, nodes = ledger_of(terms, pairs)
    wanted = naive(terms, pairs)
    for i in range(len(terms)):
        for j in range(i):
            assert (ledger.find(nodes[i]) == ledger.find(nodes[j])) == (wanted[i] == wanted[j])


@given(problems())
def test_the_reasons_of_an_equality_are_enough_for_it(problem: tuple[Terms, Pairs]) -> None:
    terms, pairs = problem
    ledger, nodes = ledger_of(terms, pairs)
    for i in range(len(terms)):
        for j in range(i):
            if ledger.find(nodes[i]) == ledger.find(nodes[j]):
                reasons = ledger.reasons([(nodes[i], nodes[j])])
                alone = naive(terms, [pairs[k] for k in reasons])
                assert alone[i] == alone[j]


@given(problems())
def test_nodes_that_come_late_are_found_equal(problem: tuple[Terms, Pairs]) -> None:
    terms, pairs = problem
    first = max([3, *(max(p) for p in pairs)]) + 1
    ledger, nodes = ledger_of(terms[:first], pairs)
    for op, operands in terms[first:]:
        nodes.append(ledger.add(op, (), tuple(nodes[k] for k in operands), 0, SOURCE))
    wanted = naive(terms, pairs)
    for i in range(len(terms)):
        for j in range(i):
            assert (ledger.find(nodes[i]) == ledger.find(nodes[j])) == (wanted[i] == wanted[j])
