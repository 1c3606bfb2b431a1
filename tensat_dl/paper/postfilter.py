"""The filter list: e-nodes that are taken out of the e-graph so that it has no cycle (paper, algorithm 2).

Cycles are looked for depth first, and of each the e-node that was added last goes on the list, until no cycle is
left. The engine keeps such e-nodes subsumed: no rule sees them, but adding one again finds its e-class.

In each e-class one e-node is protected. Handles number e-classes so that each has an e-node whose children are all
older (see `tensat_dl.engine.naming`), and uniting e-classes keeps it that way; the one of these that was added first
is never put on the list. So every e-class keeps an acyclic derivation, and every cycle has an e-node that may go:
along protected ones handles only decrease. Congruence may make an e-node on the list one with a protected one;
where an e-class would be left without, it comes off the list again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.declarations import node_term
from tensat_dl.engine.naming import EngineState, NodeRow, Store
from tensat_dl.engine.syntax import App, Lit, app, by_id
from tensat_dl.ops.table import OpTable
from tensat_dl.paper.cycles import ClassGraph

#: Constructor, attributes and child handles: they say which e-node it is.
Key = tuple[str, Attrs, tuple[int, ...]]


#: E-nodes that rules may match, by operator, child e-classes and own e-class.
Live = frozenset[tuple[str, tuple[int, ...], int]]


class ENode(NamedTuple):
    """An e-node by handles. (A tuple, as an exploration makes some for each e-node in each iteration.)"""

    age: int  #: the number of e-nodes that were there before it
    own: int
    children: tuple[int, ...]
    grounded: bool  #: whether it can be its e-class's derivation: all its children are older e-classes
    row: NodeRow


@dataclass
class Ages:
    """In which order e-nodes appeared. E-nodes that become congruent have the age of the older one."""

    known: dict[Key, int] = field(default_factory=dict)
    count: int = 0
    merged: int = 0  #: how many handles had lost their e-classes to older ones

    def enodes(self, state: EngineState) -> list[ENode]:
        """All e-nodes, oldest first. New ones of one iteration are ordered by their operands, oldest first."""
        self._recanonicalise(state)
        rows, handles = state.rows, state.handles
        new: list[tuple[int, int, tuple[int, ...], str, str, Key]] = []
        keys: list[Key] = []
        for r in rows:
            children = tuple([handles[c] for c in r.children])
            key = (r.constructor.name, r.attrs, children)
            keys.append(key)
            if key not in self.known:
                own = handles[r.output]
                new.append((max((own, *children)), own, children, key[0], repr(r.attrs), key))
        for *_, key in sorted(new, key=lambda n: n[:5]):
            self.known[key] = self.count
            self.count += 1
        found = []
        for key, r in zip(keys, rows, strict=True):
            own, children = handles[r.output], key[2]
            grounded = not children or max(children) < own
            found.append(ENode(self.known[key], own, children, grounded, r))
        found.sort(key=lambda n: n.age)
        return found

    def _recanonicalise(self, state: EngineState) -> None:
        handles = state.handles
        moved = {handle: handles[c] for handle, c in state.frozen.by_handle() if handle != handles[c]}
        if len(moved) == self.merged:
            return
        self.merged = len(moved)
        known: dict[Key, int] = {}
        for (name, attrs, children), age in self.known.items():
            key = (name, attrs, tuple(moved.get(c, c) for c in children))
            known[key] = min(age, known.get(key, age))
        self.known = known


def restorable(enodes: Iterable[ENode]) -> list[ENode]:
    """E-nodes on the filter list that have to come off it, each the oldest derivation of an e-class without one."""
    grounded = {n.own for n in enodes if not n.row.subsumed and n.grounded}
    out: dict[int, ENode] = {}
    for n in enodes:
        if n.own not in grounded and n.grounded:
            out.setdefault(n.own, n)
    return list(out.values())


def cyclic(enodes: Iterable[ENode]) -> list[ENode]:
    """E-nodes without which an e-graph has no cycle: of each cycle found, the e-node that was added last.

    One depth-first pass is enough. When an e-node of a cycle goes, the search takes itself back to that e-node's
    e-class and continues there. Finished e-classes lead to no e-class of the current path, so they close no cycle
    later.
    """
    alive = list(enodes)
    protected: dict[int, int] = {}
    for n in alive:
        if n.grounded:
            protected.setdefault(n.own, n.age)
    by_class = _on_cycles(alive)
    gone: dict[int, ENode] = {}
    done: set[int] = set()
    for start in sorted(by_class):
        if start in done:
            continue
        path = [start]
        depth = {start: 0}  # e-classes of the path, by their position on it
        steps = [_steps(by_class[start])]
        taken: list[ENode] = []  # how each one leads to the next
        while path:
            for n, d in steps[-1]:
                if n.age in gone or d in done or d not in by_class:
                    continue
                if d not in depth:
                    depth[d] = len(path)
                    path.append(d)
                    steps.append(_steps(by_class[d]))
                    taken.append(n)
                    break
                cycle = [*taken[depth[d] :], n]
                last = max((m for m in cycle if protected[m.own] != m.age), key=lambda m: m.age)
                gone[last.age] = last
                if last is not n:
                    keep = depth[last.own] + 1
                    for c in path[keep:]:
                        del depth[c]
                    del path[keep:], steps[keep:], taken[keep - 1 :]
                    break
            else:
                c = path.pop()
                steps.pop()
                del depth[c]
                done.add(c)
                if taken:
                    taken.pop()
    return list(gone.values())


def _on_cycles(enodes: Sequence[ENode]) -> dict[int, list[ENode]]:
    """E-nodes by e-class, without the e-classes that depend on no cycle and those on which none depends."""
    by_class: dict[int, list[ENode]] = {}
    for n in enodes:
        by_class.setdefault(n.own, []).append(n)
    down = {c: {d for n in ns for d in n.children} for c, ns in by_class.items()}
    up: dict[int, set[int]] = {c: set() for c in by_class}
    for c, ds in down.items():
        for d in ds:
            up[d].add(c)
    left = set(by_class)
    for out, into in ((down, up), (up, down)):
        count = {c: sum(d in left for d in out[c]) for c in left}
        ready = [c for c, k in count.items() if not k]
        for c in ready:  # grows while it is read
            left.remove(c)
            for p in into[c]:
                if p in left:
                    count[p] -= 1
                    if not count[p]:
                        ready.append(p)
    return {c: [n for n in ns if left.intersection(n.children)] for c, ns in by_class.items() if c in left}


def _steps(enodes: Sequence[ENode]) -> Iterator[tuple[ENode, int]]:
    return ((n, d) for n in enodes for d in dict.fromkeys(n.children))


def class_graph(enodes: Iterable[ENode]) -> ClassGraph:
    """Which e-classes each e-class depends on."""
    graph: dict[int, set[int]] = {}
    for n in enodes:
        graph.setdefault(n.own, set()).update(n.children)
    return graph


def subsume(store: Store, enodes: Sequence[ENode]) -> None:
    """Puts e-nodes on the filter list."""
    for n in enodes:
        for term in _terms(store, n):
            store.engine.run(app("subsume", term))


def restore(store: Store, enodes: Sequence[ENode]) -> None:
    """Takes e-nodes off the filter list: the engine has no such command, so each is deleted and added again."""
    for n in enodes:
        for term in _terms(store, n):
            store.engine.run(app("delete", term), app("union", term, by_id(Lit(n.own))))


def _terms(store: Store, n: ENode) -> list[App]:
    """The terms by which rules see an e-node: that of a commutative operator in both orders as well."""
    c, attrs, children = n.row.constructor, n.row.attrs, n.children
    own = node_term(c, attrs, children)
    if not is_commutative(store.program.schema.ops, c.op):
        return [own]
    return [own, *(App(c.either, node_term(c, attrs, k).args) for k in (children, children[::-1]))]


def is_commutative(ops: OpTable, op: str) -> bool:
    return op in ops and ops[op].commutative  # `proj` is in no table


def live(enodes: Iterable[ENode], ops: OpTable) -> Live:
    """The e-nodes that rules see, those of commutative operators in both orders."""
    seen = [(n.row.constructor.op, n.children, n.own) for n in enodes]
    return frozenset([*seen, *((op, c[::-1], own) for op, c, own in seen if is_commutative(ops, op))])


def is_live(rule: RewriteRule, tensors: Mapping[str, int], nodes: Live) -> bool:
    """Whether none of the e-nodes that a match is about went on the filter list since it was found.

    Attributes are not looked at: e-nodes of one e-class with the same children are on the same cycles.
    """
    return all(
        (n.op, tuple([tensors[a] for a in n.args]), tensors[n.result]) in nodes for n in rule.source.nodes
    )
