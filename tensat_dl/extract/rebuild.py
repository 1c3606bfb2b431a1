"""From an extraction's choices to a graph."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from tensat_dl.core.egraph import CONTIGUOUS, EGraph
from tensat_dl.core.graph import Graph, GraphBuilder, Node
from tensat_dl.extract.extraction import Extraction
from tensat_dl.extract.weights import fewest_bytes


def rebuild(
    egraph: EGraph, extraction: Extraction, source: Graph, origins: Sequence[str] = ()
) -> tuple[Graph, tuple[str, ...]]:
    """The chosen graph, with the source's inputs, output names and, where an e-class has one, node names; and for
    each of its run-time nodes the rule that first built it, "" for the input program's nodes and for all others.

    ``origins`` are the rules that built the nodes of the ``source``, if rules did. E-classes that are computed from
    weights alone are derived with the fewest bytes.
    """
    derivation = fewest_bytes(egraph, extraction.choices, source.opaque)
    builder = GraphBuilder(source.name, source.opaque)
    home: list[int] = egraph.home.tolist()
    choices = {**extraction.choices, **shorter_views(egraph, extraction.choices)}
    names: dict[int, str] = {}
    for i, n in enumerate(egraph.source.tolist()):
        if n >= 0 and source.nodes[i].name:
            names.setdefault(home[egraph.node_class[n]], source.nodes[i].name)
    # Inputs are part of a graph's interface: all stay, in order. So do the weights that are needed.
    for node in source.nodes:
        if node.op in ("input", "weight"):
            builder.copy(node)

    def chosen(c: int) -> int:
        n = derivation[c] if egraph.weights_only[c] else choices[c]
        return chosen(egraph.children_of(n)[0]) if egraph.op[n] == CONTIGUOUS else n

    def expand(c: int) -> tuple[Node, list[int]]:
        n = chosen(c)
        node = Node(egraph.op[n], (), egraph.attrs[n], egraph.types[c], names.get(home[c], ""))
        operands = egraph.operands_of(n)
        # Views are free, so a reshape of a reshape may be chosen where there is one reshape as well.
        alike = [home[egraph.operands_of(m)[0]] for m in egraph.nodes_of(c) if egraph.op[m] == "reshape"]
        while node.op == "reshape" and egraph.op[below := chosen(operands[0])] == "reshape":
            if home[egraph.operands_of(below)[0]] not in alike:
                break
            operands = egraph.operands_of(below)
        return node, operands

    built = builder.assemble(egraph.roots, expand)
    assert built is not None, "choices have no cycle"
    outputs = [(name, built[root]) for (name, _), root in zip(source.outputs, egraph.roots, strict=True)]
    before = {n: rule for n, rule in zip(egraph.source.tolist(), origins, strict=False) if n >= 0}
    rules = [""] * len(builder.nodes)
    for c, i in built.items():
        if not egraph.weights_only[c]:
            n = chosen(c)
            rules[i] = (egraph.origin[n] if egraph.origin else "") or before.get(n, "")
    graph = builder.finish(outputs)
    # Weights that the answer does without are dropped. They come first, and no rule built them.
    return graph, tuple(rules[len(rules) - len(graph.nodes) :])


def shorter_views(egraph: EGraph, choices: Mapping[int, int]) -> dict[int, int]:
    """For e-classes that free views compute from a result, choices with fewer views between.

    Views cost nothing, so an answer may have a transpose of a transpose where there is one transpose as well. The
    result stays the same one, since another result might be computed from the e-class itself.
    """
    seen: dict[int, list[int]] = {}  # by e-class, the free views of it
    below: dict[int, int] = {}  # by free view, its e-class
    node_class: list[int] = egraph.node_class.tolist()
    for n, op in enumerate(egraph.op):
        children = egraph.children_of(n)
        free = op in ("reshape", "transpose", "slice") and egraph.cost[n] == 0 and len(children) == 1
        if (free or op == CONTIGUOUS) and not egraph.weights_only[node_class[n]]:
            below[n] = children[0]
            seen.setdefault(children[0], []).append(n)

    # By e-class, the result that the answer's views of it end at, and how many these are.
    ends: dict[int, tuple[int, int]] = {}

    def end(c: int) -> tuple[int, int]:
        if c not in ends:
            n = choices[c]
            if n in below:
                result, length = end(below[n])
                ends[c] = result, length + (egraph.op[n] != CONTIGUOUS)
            else:
                ends[c] = c, 0
        return ends[c]

    chains: dict[int, list[int]] = {}  # by result, the e-classes that more than one view computes from it
    for c in choices:
        result, length = end(c)
        if length > 1:
            chains.setdefault(result, []).append(c)
    found: dict[int, int] = {}
    for result, longer in chains.items():
        distance, way = {result: 0}, {result: -1}
        waiting = deque([result])
        while waiting:
            c = waiting.popleft()
            for n in seen.get(c, ()):
                d = node_class[n]
                if d in distance or (d in choices and ends[d][0] != result):
                    continue
                step = egraph.op[n] != CONTIGUOUS
                distance[d], way[d] = distance[c] + step, n
                (waiting.append if step else waiting.appendleft)(d)
        for c in longer:
            while c != result and (c not in choices or distance[c] < ends[c][1]):
                found[c] = way[c]
                c = below[way[c]]
    return found


def rules_used(origins: Iterable[str]) -> dict[str, int]:
    """How many nodes each rule built, those with the most first."""
    counts = Counter(rule for rule in origins if rule)
    return dict(sorted(counts.items(), key=lambda r: (-r[1], r[0])))
