"""Source patterns as acyclic joins.

A pattern is a tree of operators, but a variable that it names in two places closes a cycle in the join of e-nodes:
in ``ewadd(smul(x, s), smul(y, s))`` a plan may start from the two products and relate every pair of them by the
same scale, quadratically many if the whole graph is scaled alike. Where the places are not next to each other in the
tree, the second one gets a name of its own, and the two values are compared once both are found. What is left has
the running intersection property: whatever a name is shared by is connected, and matching takes time in proportion to
the e-nodes and to the alternatives within e-classes (Beeri, Fagin, Maier and Yannakakis, 1983).
"""

from __future__ import annotations

from collections.abc import Sequence


def acyclic(
    atoms: Sequence[tuple[str, Sequence[str]]],
) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    """E-node patterns, each a result and its terms, of which those that start with ``?`` are variables. Operands come
    before what uses them. The same with variables renamed, and the pairs of variables that have to be equal."""
    names = [{t for t in (result, *terms) if t.startswith("?")} for result, terms in atoms]
    local: list[dict[str, str]] = [{} for _ in atoms]
    places: dict[str, int] = {}
    equal: list[tuple[str, str]] = []
    for k in reversed(range(len(atoms))):
        parent = next((j for j in reversed(range(k + 1, len(atoms))) if atoms[k][0] in names[j]), None)
        above = {} if parent is None else local[parent]
        for name in sorted(names[k]):
            if name in above:
                local[k][name] = above[name]
                continue
            places[name] = places.get(name, 0) + 1
            local[k][name] = name if places[name] == 1 else f"{name}.again{places[name]}"
            if places[name] > 1:
                equal.append((name, local[k][name]))
    renamed = [
        (local[k].get(result, result), [local[k].get(t, t) for t in terms])
        for k, (result, terms) in enumerate(atoms)
    ]
    return renamed, equal
