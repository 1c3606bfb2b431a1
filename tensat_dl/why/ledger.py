"""An e-graph that remembers why: for every two nodes that are equal, the applications of rules that make them so.

Nodes are terms: a node's operands are nodes, and stay what they were when it was made. Every union of two nodes is an
edge of a forest, labelled with the application that it is from or as congruence (equal operators on equal operands).
Trees are joined and never cut, so the path between two nodes, once there is one, stays their proof (Nieuwenhuis and
Oliveras, "Proof-producing congruence closure", 2005).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tensat_dl.core.egraph import NodeKey
from tensat_dl.core.graph import Attrs, TensorType

#: The label of edges from congruence.
CONGRUENCE = -1
#: The maker of what the input graph has.
SOURCE = -1


class Ledger:
    """Nodes in classes. ``label`` has for each node its e-class in the explored e-graph, ``maker`` the application
    that made it."""

    def __init__(self, types: Mapping[int, TensorType]) -> None:
        self._types = types  #: by label
        self.op: list[str] = []
        self.attrs: list[Attrs] = []
        self.operands: list[tuple[int, ...]] = []
        self.label: list[int] = []
        self.maker: list[int] = []
        self.members: dict[int, list[int]] = {}  #: the nodes of each class, without those congruent to others
        self.labelled: dict[int, set[int]] = {}  #: the classes of each label
        self._parent: list[int] = []
        self._users: dict[int, list[int]] = {}
        self._node: dict[NodeKey, int] = {}
        self._by_op: dict[str, list[int]] = {}
        self._double: set[int] = set()
        self._edge: list[tuple[int, int] | None] = []  #: to what a node is joined in the forest, and why
        self._waiting: list[tuple[int, int]] = []

    # ---- reading -----------------------------------------------------------------------------------------

    def type_of(self, c: int) -> TensorType | None:
        return self._types.get(self.label[c])

    def find(self, n: int) -> int:
        """The node that stands for the class of a node."""
        parent = self._parent
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    class_of = find

    def with_op(self, op: str) -> Iterable[int]:
        return (n for n in self._by_op.get(op, ()) if n not in self._double)

    def nodes_of(self, c: int) -> Iterable[int]:
        return self.members[self.find(c)]

    def children_of(self, n: int) -> Sequence[int]:
        find = self.find
        return [find(k) for k in self.operands[n]]

    def users_of(self, c: int) -> Iterable[int]:
        return [n for n in self._users[self.find(c)] if n not in self._double]

    def lookup(self, key: NodeKey) -> int | None:
        """A node of this operator on operands equal to these."""
        op, attrs, operands = key
        return self._node.get((op, attrs, tuple(map(self.find, operands))))

    # ---- writing -----------------------------------------------------------------------------------------

    def add(self, op: str, attrs: Attrs, operands: tuple[int, ...], label: int, maker: int) -> int:
        """The node with exactly these operands. If there is one with equal operands, it is equal to that."""
        key = (op, attrs, tuple(map(self.find, operands)))
        same = self._node.get(key)
        if same is not None and self.operands[same] == operands:
            return same
        n = len(self.op)
        self.op.append(op)
        self.attrs.append(attrs)
        self.operands.append(operands)
        self.label.append(label)
        self.maker.append(maker)
        self._parent.append(n)
        self._edge.append(None)
        self.members[n] = [n]
        self._users[n] = []
        self.labelled.setdefault(label, set()).add(n)
        for k in set(key[2]):
            self._users[k].append(n)
        if same is None:
            self._node[key] = n
            self._by_op.setdefault(op, []).append(n)
        else:
            self._double.add(n)
            self.members[n] = []
            self.union(same, n, CONGRUENCE)
        return n

    def union(self, a: int, b: int, why: int) -> bool:
        """Makes two nodes equal, and all that follows by congruence; whether they were not."""
        if not self._join(a, b, why):
            return False
        while self._waiting:
            self._join(*self._waiting.pop(), CONGRUENCE)
        return True

    def _join(self, a: int, b: int, why: int) -> bool:
        ra, rb = self.find(a), self.find(b)
        if ra == rb:
            return False
        assert self.label[ra] == self.label[rb], "equal nodes are of one e-class"
        if len(self._users[ra]) + len(self.members[ra]) < len(self._users[rb]) + len(self.members[rb]):
            a, b, ra, rb = b, a, rb, ra
        self._hang(b, a, why)
        self._parent[rb] = ra
        self.labelled[self.label[rb]].discard(rb)
        self.members[ra] += self.members.pop(rb)
        for user in self._users.pop(rb):
            self._users[ra].append(user)
            if user in self._double:
                continue
            key = (self.op[user], self.attrs[user], tuple(map(self.find, self.operands[user])))
            same = self._node.setdefault(key, user)
            if same != user:
                self._double.add(user)
                self.members[self.find(user)].remove(user)
                self._waiting.append((same, user))
        return True

    def _hang(self, b: int, a: int, why: int) -> None:
        """Joins the tree of b to a: edges from b to its root are turned round."""
        towards, label, n = a, why, b
        while True:
            before = self._edge[n]
            self._edge[n] = (towards, label)
            if before is None:
                return
            towards, label, n = n, before[1], before[0]

    # ---- proofs ------------------------------------------------------------------------------------------

    def reasons(self, pairs: Iterable[tuple[int, int]]) -> set[int]:
        """The applications that make the nodes of each pair equal."""
        found: set[int] = set()
        waiting, seen = list(pairs), set()
        while waiting:
            a, b = waiting.pop()
            if a == b or (a, b) in seen:
                continue
            seen.add((a, b))
            for x, y, why in self._path(a, b):
                if why != CONGRUENCE:
                    found.add(why)
                else:
                    waiting += zip(self.operands[x], self.operands[y], strict=True)
        return found

    def _path(self, a: int, b: int) -> list[tuple[int, int, int]]:
        """The edges between two equal nodes."""
        above = {a: 0}
        left: list[tuple[int, int, int]] = []
        n = a
        while (edge := self._edge[n]) is not None:
            left.append((n, edge[0], edge[1]))
            n = edge[0]
            above[n] = len(left)
        right: list[tuple[int, int, int]] = []
        n = b
        while n not in above:
            edge = self._edge[n]
            assert edge is not None, "the nodes are equal"
            right.append((n, edge[0], edge[1]))
            n = edge[0]
        return left[: above[n]] + right
