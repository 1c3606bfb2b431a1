"""From applications of rules to a chain of graphs, each made of the one before by one application.

A graph is a choice of one node for each class of equal nodes, as in extraction. Applying a rule chooses the nodes
that it built for its outputs. Where a rule needs a node in place of which another was chosen before, that one is
chosen again, which is allowed because both are known to be equal by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tensat_dl.core.expression import index_of
from tensat_dl.core.graph import Graph, GraphBuilder, Node, TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.node_names import node_names
from tensat_dl.ops.table import OpTable
from tensat_dl.why.replay import Application, Replay
from tensat_dl.why.shorten import Rerun
from tensat_dl.why.sides import leaf_node, sides
from tensat_dl.why.steps import Step


def chain(
    replay: Replay, way: Sequence[Application], rules: Mapping[str, RewriteRule], ops: OpTable
) -> Iterator[Step]:
    """The steps from the first graph to the second, one for each application of a way that a replay has found."""
    making = _Making(replay, ops)
    waiting = list(way)
    needed = Counter(n for a in waiting for n in a.source)
    last = ""

    def rank(a: Application) -> tuple[int, int, bool]:
        """Steps that make no trouble come first, and then those that go on with a rule."""
        return *making.trouble(a, needed), last != a.rule

    while waiting:
        a = min(filter(making.rerun.applies, waiting), key=rank)  # of equal ones the first
        waiting.remove(a)
        needed.subtract(a.source)
        last = a.rule
        yield making.step(a, rules[a.rule])


#: A part that is put together to a graph: a class of the ledger, the same as it was before the rule, or an
#: operator that the rule builds, by name.
_Key = int | tuple[str, int] | str


class _Making:
    """The current graph: a choice of one node for each class."""

    def __init__(self, replay: Replay, ops: OpTable) -> None:
        self.replay = replay
        self.rerun = Rerun(replay)
        self.ledger = self.rerun.ledger
        self.number = 0
        self.choice = {self.rerun.of[n]: self.rerun.of[n] for n in replay.nodes}
        names = _labels(replay, replay.before, ops), _labels(replay, replay.after, ops)
        #: Names by e-class: those of the input graph first.
        self.names = {c: name for found in reversed(names) for c, (name, _) in found.items()}
        self.final = {key for _, key in names[1].values()}

    def trouble(self, a: Application, needed: Mapping[int, int]) -> tuple[int, int]:
        """How many nodes have to be chosen again for an application, and how many that it replaces are ``needed`` by
        others."""
        here = self.rerun.translated(a)
        again = sum(not self._chosen(self.ledger.find(n), n) for n in here.source)
        return again, sum(needed[s] - 1 for s, _ in a.outputs)

    def step(self, a: Application, rule: RewriteRule) -> Step:
        find = self.ledger.find
        here = self.rerun.translated(a)
        wanted = {find(n): n for n in here.source}
        possible = len(wanted) == len({self._key(n) for n in here.source})
        turned = {c: self.choice.get(c) for c, n in wanted.items() if not self._chosen(c, n)}
        choice = self.choice | wanted
        replaced = [find(here.names[s]) for s, _ in a.target.outputs]
        redirect: dict[int, _Key] = {}
        for (_, t), c in zip(a.target.outputs, replaced, strict=True):
            redirect[c] = t if t in a.built else find(here.names[t])
        at = tuple((self._name(c), self._types(c)[0]) for c in replaced)
        sides = self._sides(here)
        before = self._graph(choice, {}, here) if possible else None
        after = self._graph(choice, redirect, here) if before is not None else None
        what = tuple(self._name(c) for c in turned if c in self.choice)
        here = self.rerun.apply(a, self.number)
        self.number += 1
        self._update(choice, here, {c: n for c, n in turned.items() if n is not None and c not in replaced})
        return Step(rule, _members(a), at, sides, before, after, what)

    # ---- the choice --------------------------------------------------------------------------------------

    def _key(self, n: int) -> tuple[object, ...]:
        return self.ledger.op[n], self.ledger.attrs[n], tuple(self.ledger.children_of(n))

    def _chosen(self, c: int, n: int) -> bool:
        return c in self.choice and self._key(self.choice[c]) == self._key(n)

    def _is_final(self, n: int) -> bool:
        ledger = self.ledger
        return (
            ledger.op[n],
            ledger.attrs[n],
            tuple(ledger.label[k] for k in ledger.operands[n]),
        ) in self.final

    def _update(self, choice: dict[int, int], here: Application, turned: Mapping[int, int]) -> None:
        """The choice after an application: the nodes that it built, replaced by nodes of the last graph where these
        exist."""
        find = self.ledger.find
        new: dict[int, int] = {}
        built = [*here.built.values(), *(t for _, t in here.outputs)]
        for c, n in [*choice.items(), *turned.items(), *((n, choice.get(n, n)) for n in built)]:
            root = find(c)
            if root not in new or not self._is_final(new[root]):
                new[root] = n
        self.choice = new
        for c in {find(n) for n in (*built, *turned)}:
            for n in self.ledger.nodes_of(c):
                if self._is_final(n) and not self._chosen(c, n) and self._can_choose(n, c):
                    self.choice[c] = n

    def _can_choose(self, n: int, c: int) -> bool:
        """Whether a node's operands are there and none is computed from the class c, which is the node's own."""
        children_of = self.ledger.children_of
        stack, seen = list(children_of(n)), set()
        while stack:
            k = stack.pop()
            if k == c or k not in self.choice:
                return False
            if k not in seen:
                seen.add(k)
                stack += children_of(self.choice[k])
        return True

    # ---- graphs ------------------------------------------------------------------------------------------

    def _graph(
        self, choice: Mapping[int, int], redirect: Mapping[int, _Key], here: Application
    ) -> Graph | None:
        """The graph of a choice, with other things in place of some classes; None if it would be cyclic."""
        ledger, find = self.ledger, self.ledger.find
        operators = {o.result: o for o in here.target.operators}
        source = self.replay.before
        builder = GraphBuilder(source.name, source.opaque)
        for i in source.inputs:
            builder.copy(source.nodes[i])

        def operand(name: str) -> _Key:
            if name in operators:
                return name
            c = find(here.names[name])
            return ("old", c) if c in redirect else c

        def instead(c: int) -> _Key:
            return redirect.get(c, c)

        def expand(key: _Key) -> tuple[Node, list[_Key]]:
            if isinstance(key, str):
                o = operators[key]
                return Node(o.op, (), o.attrs, (o.type,)), [operand(a) for a in o.args]
            c = key if isinstance(key, int) else key[1]
            n = choice[c]
            node = Node(ledger.op[n], (), ledger.attrs[n], self._types(c), self._name(c))
            return node, [instead(find(k)) for k in ledger.operands[n]]

        of, nodes = self.rerun.of, self.replay.nodes
        outputs = [(name, instead(find(of[nodes[i]]))) for name, i in source.outputs]
        made = builder.assemble([key for _, key in outputs], expand)
        return None if made is None else builder.finish((name, made[key]) for name, key in outputs)

    def _sides(self, here: Application) -> tuple[Graph, Graph]:
        """The two sides of the rule, on tensors of the types that it was applied to."""
        ledger, find, known = self.ledger, self.ledger.find, self.replay.known

        def leaf(c: int, name: str) -> Node:
            # A number that other numbers give: the e-class of 0.5 * 0.5 has a fill only if a rule made one.
            label = ledger.label[c]
            return leaf_node(name, self._types(c), label in known.weights, known.values.get(label))

        def node(c: int) -> tuple[Node, list[int]]:
            m = matched[c]
            return Node(ledger.op[m], (), ledger.attrs[m], self._types(c)), [
                find(k) for k in ledger.operands[m]
            ]

        matched = {find(n): n for n in here.source}
        names = {name: find(n) for name, n in here.names.items()}
        return sides(here.target, names, matched, node, leaf, self.replay.before.opaque)

    def _types(self, c: int) -> tuple[TensorType, ...]:
        return self.replay.egraph.types[self.ledger.label[c]]

    def _name(self, c: int) -> str:
        """The name of a class: as in the input graph, as in the last one, or else by a number."""
        label = self.ledger.label[c]
        if label not in self.names:
            op = self.ledger.op[self.choice.get(c, c)]
            self.names[label] = f"{op}_{label}"
        return self.names[label]


def _members(a: Application) -> int:
    """To how many members a group rule was applied; 0 for others."""
    return len({index_of(name) for name in a.names} - {""})


def _labels(replay: Replay, graph: Graph, ops: OpTable) -> dict[int, tuple[str, tuple[object, ...]]]:
    """For the e-class of each node of a graph its name, and the e-node that it is."""
    labels: list[int] = []
    found: dict[int, tuple[str, tuple[object, ...]]] = {}
    for node, name in zip(graph.nodes, node_names(graph, ops), strict=True):
        key = node.op, node.attrs, tuple(labels[j] for j in node.inputs)
        labels.append(replay.index[key])
        found.setdefault(labels[-1], (name, key))
    return found
