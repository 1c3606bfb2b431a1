"""The e-graph as it was last read: reading it takes as long as to run many rules. So it is read again only where
something may have changed, and where that matters."""

from __future__ import annotations

from dataclasses import replace

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.naming import EngineState, Store, by_constructor
from tensat_dl.engine.precount import Nodes, Outline
from tensat_dl.engine.selection import Selection

#: Matches of more tensors than this, all together, are not looked for: the engine would hold them all. Where each
#: member of a long list can be computed in two ways, there are 2^n of them.
MOST_HELD = 50_000_000
#: The share of the room that is left that a rule may fill by e-nodes that were read some time ago: e-classes have
#: merged since.
SURELY = 0.5


class EngineReader:
    """The e-nodes of an exploration, by operator, and how many they were."""

    def __init__(self, store: Store, selection: Selection) -> None:
        self._store = store
        self._selection = selection
        self._size = 0
        self._state: EngineState | None = None  #: None once something may have changed
        self.alike = Nodes()

    def changed(self) -> None:
        """Takes note that e-nodes may have been added or merged."""
        self._state = None

    def fresh(self) -> EngineState:
        """The engine now, new e-classes named."""
        frozen = self._store.engine.freeze()
        rows = self._store.rows(frozen)
        handles = self._store.handles(frozen)
        frozen.named |= self._store.name_classes(handles, rows)
        state = self._state = EngineState.of(frozen, rows, handles)
        self.alike = by_constructor(state)
        self._size = len(rows)
        return state

    def now(self) -> EngineState:
        """As `fresh`, and if rules have found matches but changed nothing since, without reading e-nodes again."""
        if self._state is None:
            return self.fresh()
        return replace(self._state, frozen=self._store.engine.freeze())

    def current(self) -> EngineState:
        """As `now`, but perhaps without matches that were found since."""
        return self._state or self.fresh()

    def may_add(self, rule: RewriteRule, size: int, done: int) -> int:
        """How many e-nodes a single-pattern rule, of which so many matches are done, may add to an e-graph of this
        size. E-nodes are read again if there may be too little room by what was last read of them."""
        patterns, new_nodes = rule.source.nodes, len(rule.target.nodes)
        room = self._selection.limit - size
        # A few new e-nodes may double the ways to compute each operand of a long list.
        long = len(patterns) << len(patterns) > MOST_HELD
        grown = size - self._size > max(room // 20, self._selection.limits.nodes // 100)
        if long and self._state is None:
            self.fresh()
        elif grown:
            most = self._widest_product(rule) * new_nodes
            if most <= room * SURELY:
                return most
            self.fresh()
        most = self._widest_product(rule)
        if most * new_nodes > room:
            either = self._store.program.schema.in_either_order(rule)
            most = max(0, Outline.of(rule, either).most_matches(self.alike) - done)
        return most * new_nodes

    def _widest_product(self, rule: RewriteRule) -> int:
        """The most matches of a single-pattern rule: as if each e-node that its root matches had operands with the
        most e-nodes of an e-class, and as if e-nodes that were not read yet were all in that e-class."""
        most = 1
        either = self._store.program.schema.in_either_order(rule)
        for n in rule.source.nodes:
            alike = self.alike.get((n.op, len(n.args)))
            count = self._selection.count(n.op, len(n.args))
            read, widest = (0, 0) if alike is None else (len(alike.nodes), alike.widest)
            most *= count if n.result in rule.source.outputs else widest + max(0, count - read)
            most *= 2 if n.result in either else 1
        return most
