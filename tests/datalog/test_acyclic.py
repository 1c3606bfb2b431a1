"""Source patterns as acyclic joins: what a name is shared by is connected, and what was renamed is compared."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.datalog.acyclic import acyclic

Atom = tuple[str, Sequence[str]]


@st.composite
def trees(draw: st.DrawFn) -> list[Atom]:
    """Atoms of a random pattern, operands first, over few variables."""
    atoms: list[Atom] = []
    waiting = ["?n0"]
    made = 0
    while waiting:
        result = waiting.pop(0)
        terms = []
        for _ in range(draw(st.integers(1, 3))):
            if made < 6 and draw(st.booleans()):
                made += 1
                terms.append(f"?n{made}")
                waiting.append(f"?n{made}")
            else:
                terms.append(draw(st.sampled_from(["?x", "?y", "?s", '"none"', "3"])))
        atoms.insert(0, (result, terms))
    return atoms


def test_a_variable_of_two_siblings_is_compared() -> None:
    atoms = [("?a", ["?x", "?s"]), ("?b", ["?y", "?s"]), ("?r", ["?a", "?b"])]
    renamed, equal = acyclic(atoms)
    assert renamed == [("?a", ["?x", "?s.again2"]), ("?b", ["?y", "?s"]), ("?r", ["?a", "?b"])]
    assert equal == [("?s", "?s.again2")]


def test_a_variable_of_parent_and_child_is_joined() -> None:
    atoms = [("?a", ["?x", "?s"]), ("?r", ["?a", "?s"])]
    assert acyclic(atoms) == ([("?a", ["?x", "?s"]), ("?r", ["?a", "?s"])], [])


def test_constants_are_left_alone() -> None:
    atoms = [("?a", ['"relu"', "?x"]), ("?b", ['"relu"', "?y"]), ("?r", ["?a", "?b"])]
    assert acyclic(atoms)[1] == []


@given(trees())
def test_atoms_that_share_a_name_are_connected_in_the_tree(atoms: list[Atom]) -> None:
    renamed, _ = acyclic(atoms)
    results = [result for result, _ in renamed]
    for name in {t for result, terms in renamed for t in (result, *terms) if t.startswith("?")}:
        having = [k for k, (result, terms) in enumerate(renamed) if name in (result, *terms)]
        heads = [k for k in having if not any(results[k] in renamed[j][1] for j in having)]
        assert len(heads) == 1, name  # all others hang below one of them


@given(trees())
def test_the_equalities_give_the_pattern_back(atoms: list[Atom]) -> None:
    renamed, equal = acyclic(atoms)
    back = {b: a for a, b in equal}
    assert [(back.get(r, r), [back.get(t, t) for t in terms]) for r, terms in renamed] == [
        (r, list(terms)) for r, terms in atoms
    ]
