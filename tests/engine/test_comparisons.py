"""Scalars that siblings share are compared: what a name is then shared by is connected."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.engine.syntax import Lit, Term, Var
from tensat_dl.engine.writer import apart

Atom = tuple[Var, Sequence[Term]]
A, B, R, S, T, X, Y, Z = map(Var, "abrstxyz")
SCALARS = {S, T}


@st.composite
def trees(draw: st.DrawFn) -> list[Atom]:
    """Atoms of a random pattern, operands first, over few variables."""
    atoms: list[Atom] = []
    waiting = [Var("n0")]
    made = 0
    while waiting:
        result = waiting.pop(0)
        terms: list[Term] = []
        for _ in range(draw(st.integers(1, 3))):
            if made < 6 and draw(st.booleans()):
                made += 1
                terms.append(node := Var(f"n{made}"))
                waiting.append(node)
            else:
                terms.append(draw(st.sampled_from([X, S, T, Lit("none"), Lit(3)])))
        atoms.insert(0, (result, terms))
    return atoms


def test_a_scalar_of_two_siblings_is_compared() -> None:
    atoms: list[Atom] = [(A, [X, S]), (B, [Y, S]), (R, [A, B])]
    renamed, equal = apart(atoms, SCALARS)
    assert renamed == [(A, [X, Var("s", "again2")]), (B, [Y, S]), (R, [A, B])]
    assert equal == [(S, Var("s", "again2"))]


def test_a_scalar_of_parent_and_child_is_joined() -> None:
    atoms: list[Atom] = [(A, [X, S]), (R, [A, S])]
    assert apart(atoms, SCALARS) == ([(A, [X, S]), (R, [A, S])], [])


def test_other_variables_are_joined() -> None:
    atoms: list[Atom] = [(A, [X, Y]), (B, [X, Z]), (R, [A, B])]
    assert apart(atoms, SCALARS) == (atoms, [])


@given(trees())
def test_atoms_that_share_a_scalar_are_connected_in_the_tree(atoms: list[Atom]) -> None:
    renamed, _ = apart(atoms, SCALARS)
    for name in {t for _, terms in renamed for t in terms if isinstance(t, Var) and Var(t.name) in SCALARS}:
        having = [k for k, (_, terms) in enumerate(renamed) if name in terms]
        heads = [k for k in having if not any(renamed[k][0] in renamed[j][1] for j in having)]
        assert len(heads) == 1, name  # all others hang below one of them


@given(trees())
def test_the_equalities_give_the_pattern_back(atoms: list[Atom]) -> None:
    renamed, equal = apart(atoms, SCALARS)
    back: dict[Term, Term] = {b: a for a, b in equal}
    assert [(r, [back.get(t, t) for t in terms]) for r, terms in renamed] == [
        (r, list(terms)) for r, terms in atoms
    ]
