"""Variables that are compared instead of joined.

A pattern is a tree of operators, but a variable that it names in two places closes a cycle in the join of e-nodes:
for ``ewadd(smul(x, s), smul(y, s))`` the engine may start from the two products and relate every pair of them by the
same scale. One scale can be all that a whole graph is scaled by, which makes that quadratic in the number of layers.
Where the places are not next to each other in the tree, the second one gets a name of its own, and both are compared
once both are found by way of what is between them. Joins that are left have the running intersection property: what
shares a name is connected (Beeri, Fagin, Maier and Yannakakis, 1983).

Other variables than scalars stay joined: there are few places with the same two tensors, and a comparison comes after
all alternatives of one place have been combined with those of the other.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tensat_dl.engine.terms import Term, Var


def apart(
    atoms: Sequence[tuple[Var, Sequence[Term]]], compared: Container[Term]
) -> tuple[list[tuple[Var, list[Term]]], list[tuple[Var, Var]]]:
    """E-node patterns, each a result and its terms, operands before what uses them. The same with a second name for
    some of those that are to be ``compared``, and the pairs of names that have to be equal."""
    local: list[dict[Term, Var]] = [{} for _ in atoms]
    places: dict[Var, int] = {}
    equal: list[tuple[Var, Var]] = []
    for k in reversed(range(len(atoms))):
        result, terms = atoms[k]
        parent = next((j for j in range(len(atoms)) if result in atoms[j][1]), None)
        above = {} if parent is None else local[parent]
        for name in dict.fromkeys(t for t in terms if isinstance(t, Var) and t in compared):
            if name in above:
                local[k][name] = above[name]
                continue
            places[name] = places.get(name, 0) + 1
            local[k][name] = name if places[name] == 1 else Var(name.name, f"again{places[name]}")
            if places[name] > 1:
                equal.append((name, local[k][name]))
    renamed = [(r, [local[k].get(t, t) for t in terms]) for k, (r, terms) in enumerate(atoms)]
    return renamed, equal
