"""Stable handles: every e-class gets an integer that does not depend on the engine's internal ids.

The input program's nodes are handles 0, 1, ... New e-classes get the next ones in an order that depends only on
operators, attributes and the handles of children, so that whatever is sorted by handle is the same in every run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from tensat_dl.core.graph import DTYPES, Attrs, Graph, TensorType
from tensat_dl.engine.declarations import TUPLE, Row, list_key, list_table, node_row
from tensat_dl.engine.egglog import Engine, Frozen
from tensat_dl.engine.precount import Alike, Nodes
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.schema import Constructor, decode
from tensat_dl.engine.syntax import Command, saturate
from tensat_dl.rewrite.classes import starts


class NodeRow(NamedTuple):
    """One e-node read back: its constructor, attributes, child e-classes and own e-class (engine values).

    A tuple, because hundreds of thousands are made in a run: a frozen dataclass takes three times as long to make.
    """

    constructor: Constructor
    attrs: Attrs
    children: tuple[Any, ...]
    output: Any
    inputs: tuple[Any, ...]  #: all columns as engine values: the key of the origin function
    subsumed: bool = False  #: whether it is hidden from rules


@dataclass(frozen=True, slots=True)
class EngineState:
    """The engine at one time: its rows, e-nodes, and the handle of each e-class that has one.

    ``numbered`` has the handles of each e-node's own e-class and of its children, -1 where there is none: numbers are
    looked up several times faster than the engine's values.
    """

    frozen: Frozen
    rows: list[NodeRow]
    handles: dict[Any, int]
    numbered: list[tuple[int, tuple[int, ...]]]
    _members: dict[str, set[int]] = field(default_factory=dict, compare=False, repr=False)

    def members(self, relation: str) -> set[int]:
        """The handles of the e-classes that are in a relation."""
        found = self._members.get(relation)
        if found is None:
            classes = (row.inputs[0] for row in self.frozen.rows(relation))
            found = self._members[relation] = {self.handles[c] for c in classes if c in self.handles}
        return found

    @classmethod
    def of(cls, frozen: Frozen, rows: list[NodeRow], handles: dict[Any, int]) -> EngineState:
        known = handles.get
        try:
            number = handles.__getitem__
            numbered = [(number(r.output), tuple(map(number, r.children))) for r in rows]
        except KeyError:  # seldom
            numbered = [(known(r.output, -1), tuple([known(c, -1) for c in r.children])) for r in rows]
        return cls(frozen, rows, handles, numbered)


#: Handle, operator, attributes, child handles, and the rule that builds it ("" for none).
NewNode = tuple[int, str, Attrs, tuple[int, ...], str]


class Store:
    """The engine with its program, and the handles of its e-classes."""

    def __init__(self, engine: Engine, program: EgglogProgram) -> None:
        self.engine = engine
        self.program = program
        self.next_handle = 0
        self._lists: set[tuple[int, ...]] = set()  #: those that have keys
        #: Handles of the input program's nodes that are computed from weights.
        self._weights: set[int] = set()
        self._loaded = False  #: whether a graph was
        #: By constructor the attributes that its columns stand for.
        self._attrs: defaultdict[str, dict[tuple[Any, ...], Attrs]] = defaultdict(dict)
        engine.run(*program.header(), *program.new_constructors())

    def clear(self) -> None:
        """Takes out all that was loaded and found, so that another graph can be loaded for the same rules."""
        if not self._loaded:
            return
        self.engine.clear(self._origins())
        self._loaded = False
        self._lists.clear()
        self.program.forget()

    def get_ready_to_clear(self) -> None:
        """What `clear` needs is declared beforehand: it takes most of the time."""
        self.engine.learn_to_clear(self._origins())

    def _origins(self) -> dict[str, str]:
        return {c.name: c.origin for c in self.program.schema.constructors()}

    # ---- writing -----------------------------------------------------------------------------------------

    def fresh(self) -> int:
        self.next_handle += 1
        return self.next_handle - 1

    def load_nodes(self, nodes: list[NewNode], run: bool = True) -> None:
        """Adds e-nodes, or names those that exist."""
        tables: dict[str, list[Row]] = {}
        lists: dict[tuple[int, ...], None] = {}
        wide: list[Command] = []
        for handle, op, attrs, children, rule in nodes:
            constructor = self.program.schema.constructor(op, len(children))
            if self.program.is_wide(constructor):
                wide += self.program.wide_node(constructor, handle, attrs, children, handle in self._weights)
                continue
            row, own = node_row(constructor, handle, attrs, children, rule)
            tables.setdefault(constructor.table, []).append(row)
            lists |= dict.fromkeys(own)
        self.engine.run(*self.program.new_constructors())
        self._load_lists(lists)
        for table, rows in tables.items():
            self.engine.load(table, rows)
        self.engine.run(*wide)
        if run:
            self.engine.run(saturate("load"))

    def _load_lists(self, lists: Iterable[tuple[int, ...]]) -> None:
        """Gives keys to lists of integers that have none."""
        rows: dict[int, list[Row]] = {}
        for items in lists:
            if items not in self._lists:
                self._lists.add(items)
                rows.setdefault(len(items), []).append((list_key(items), *items))
        for length, new in rows.items():
            self.engine.run(*self.program.new_list_length(length))
            self.engine.load(list_table(length), new)

    def load_types(self, types: Sequence[tuple[int, TensorType | None]]) -> None:
        """The types of e-classes, None for those of nodes with several outputs."""
        lists = [(TUPLE,) if t is None else (DTYPES.index(t.dtype), *t.shape) for _, t in types]
        self._load_lists(lists)
        self.engine.load(
            "in_type", [(h, list_key(items)) for (h, _), items in zip(types, lists, strict=True)]
        )

    def load_graph(self, graph: Graph) -> None:
        """The input program: node i gets handle i."""
        self._loaded = True
        self.program.learn(graph)
        self.engine.run(*self.program.new_constructors())
        self.next_handle = len(graph.nodes)
        self._weights = {i for i, known in enumerate(graph.weights_only()) if known}
        self.load_types([(i, n.type if len(n.types) == 1 else None) for i, n in enumerate(graph.nodes)])
        self.load_nodes([(i, n.op, n.attrs, n.inputs, "") for i, n in enumerate(graph.nodes)])
        if self.program.counts_factors:
            self.engine.load("in_start", [(i,) for i in starts(graph)])
        if self.program.tells_varying:
            self.engine.load("in_varying", [(i,) for i in range(self.next_handle) if i not in self._weights])
        self.engine.run(saturate("load", "types"))

    # ---- reading -----------------------------------------------------------------------------------------

    def rows(self, frozen: Frozen) -> list[NodeRow]:
        """Every e-node, those of one constructor together."""
        return [r for c in self.program.schema.constructors() for r in self.nodes(frozen, c)]

    def nodes(self, frozen: Frozen, constructor: Constructor) -> list[NodeRow]:
        """The e-nodes of a constructor: the same objects as long as there are no others."""
        table = frozen.table(constructor.name)
        return [] if table is None else table.made("e-nodes", partial(self._nodes, frozen, constructor))

    def _nodes(self, frozen: Frozen, constructor: Constructor, rows: Sequence[Any]) -> list[NodeRow]:
        found: list[NodeRow] = []
        make = tuple.__new__  # what a NamedTuple calls, which takes half of the time by itself
        width = len(constructor.columns)
        decoders = [frozen.decoder(c.sort) for c in constructor.columns]
        memo = self._attrs[constructor.name]
        for row in rows:
            inputs = tuple(row.inputs)
            key = inputs[:width]
            attrs = memo.get(key)
            if attrs is None:
                values = [d(v) for d, v in zip(decoders, key, strict=True)]
                attrs = memo[key] = decode(constructor, values)
            fields = constructor, attrs, inputs[width:], row.output, inputs, row.subsumed
            found.append(make(NodeRow, fields))
        return found

    def handles(self, frozen: Frozen) -> dict[Any, int]:
        """The handle of each e-class that has one."""
        number = frozen.decoder("i64")
        return {row.inputs[0]: number(row.output) for row in frozen.rows("id_of")}

    def name_classes(self, handles: dict[Any, int], rows: list[NodeRow]) -> dict[int, Any]:
        """Adds handles of new e-classes to those that are known, and tells the engine; the new ones by handle."""
        if all(r.output in handles for r in rows):
            return {}
        found: dict[int, Any] = {}
        named: list[NewNode] = []
        for ready in levels(handles, rows):
            keyed = sorted(
                ((r.constructor.name, repr(r.attrs), tuple(map(handles.__getitem__, r.children))), i)
                for i, r in enumerate(ready)
            )
            for (_, _, children), i in keyed:
                r = ready[i]
                if r.output in handles:
                    continue
                handle = handles[r.output] = self.fresh()
                found[handle] = r.output
                named.append((handle, r.constructor.op, r.attrs, children, ""))
        if named:
            self.load_nodes(named)
        return found


def levels(known: Container[Any], rows: Sequence[NodeRow]) -> Iterator[list[NodeRow]]:
    """The rows of e-classes that are not ``known`` yet, level by level: a row's children are known or of earlier
    levels, and its own e-class is not. Every row is looked at once, however many levels there are.

    E-classes without a well-founded node are in no level: nothing can be computed from them.
    """
    missing: dict[int, int] = {}
    users: dict[Any, list[int]] = {}
    ready: list[int] = []
    for i, r in enumerate(rows):
        if r.output in known:
            continue
        unknown = {c for c in r.children if c not in known}
        if unknown:
            missing[i] = len(unknown)
            for c in unknown:
                users.setdefault(c, []).append(i)
        else:
            ready.append(i)
    found: set[Any] = set()
    while ready:
        new = dict.fromkeys(rows[i].output for i in ready)
        yield [rows[i] for i in ready]
        found.update(new)
        ready = []
        for c in new:
            for i in users.pop(c, ()):
                missing[i] -= 1
                if not missing[i] and rows[i].output not in found:
                    ready.append(i)


def by_constructor(state: EngineState) -> Nodes:
    """E-nodes by operator and number of operands. Those of one constructor are together."""
    found: dict[tuple[str, int], Alike] = {}
    first = 0
    for constructor, own in groupby(state.rows, attrgetter("constructor")):
        attrs = [row.attrs for row in own]
        last = first + len(attrs)
        found[constructor.op, constructor.arity] = Alike(state.numbered[first:last], attrs)
        first = last
    return Nodes(found, state.members)
