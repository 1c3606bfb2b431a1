"""The two sides of a rule as graphs, on the tensors that it was applied to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tensat_dl.core.graph import Graph, GraphBuilder, Node, TensorType, fill_attrs
from tensat_dl.engine.targets import Target

#: A tensor by number, or an operator that the rule builds, by name.
_Key = int | str


def leaf_node(name: str, types: tuple[TensorType, ...], weight: bool, value: float | None) -> Node:
    """A tensor that no operator of the rule computes. Known facts about it are kept."""
    if value is not None:
        return Node("fill", (), fill_attrs(value, types[0]), types)
    return Node("weight" if weight else "input", (), (("name", name),), types, name)


def sides(
    target: Target,
    names: Mapping[str, int],
    matched: Collection[int],
    node: Callable[[int], tuple[Node, Sequence[int]]],
    leaf: Callable[[int, str], Node],
    opaque: Collection[str],
) -> tuple[Graph, Graph]:
    """The source and the target of an application.

    ``names`` has the number of each tensor that the source names. Those that its operators ``matched`` have a
    ``node``, without operands, and the numbers of its operands; the others are a ``leaf``.
    """
    operators = {o.result: o for o in target.operators}
    leaves: dict[int, Node] = {}
    for name, c in names.items():
        if c not in matched and c not in leaves:
            leaves[c] = leaf(c, name)

    def operand(name: str) -> _Key:
        return name if name in operators else names[name]

    def expand(key: _Key) -> tuple[Node, Sequence[_Key]]:
        if isinstance(key, str):
            o = operators[key]
            return Node(o.op, (), o.attrs, (o.type,)), [operand(a) for a in o.args]
        return (leaves[key], []) if key in leaves else node(key)

    def side(outputs: Sequence[tuple[str, _Key]]) -> Graph:
        builder = GraphBuilder(target.rule, opaque)
        for n in leaves.values():
            builder.copy(n)
        made = builder.assemble([key for _, key in outputs], expand)
        assert made is not None, "a side of a rule has no cycle"
        return builder.finish((name, made[key]) for name, key in outputs)

    first = side([(s, names[s]) for s, _ in target.outputs])
    return first, side([(s, operand(t)) for s, t in target.outputs])
