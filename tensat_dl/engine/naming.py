"""Stable handles: every e-class gets an integer that does not depend on the engine's internal ids.

The input program's nodes are handles 0, 1, ... New e-classes get the next ones in an order that depends only on
operators, attributes and the handles of children, so that whatever is sorted by handle is the same in every run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.graph import Attrs, Graph
from tensat_dl.core.types import DTYPES, TensorType
from tensat_dl.engine.egglog import Engine, Frozen
from tensat_dl.engine.program import TUPLE, EgglogProgram, column_term, list_table, wide_node
from tensat_dl.engine.schema import Constructor, decode, encode
from tensat_dl.rewrite.classes import starts


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One e-node read back: its constructor, attributes, child e-classes and own e-class (engine values)."""

    constructor: Constructor
    attrs: Attrs
    children: tuple[Any, ...]
    output: Any
    inputs: tuple[Any, ...]  #: all columns as engine values: the key of the origin function
    subsumed: bool = False  #: whether it is hidden from rules


#: Handle, operator, attributes, child handles, and the rule that builds it ("" for none).
NewNode = tuple[int, str, Attrs, tuple[int, ...], str]


class Store:
    """The engine with its program, and the handles of its e-classes."""

    def __init__(self, engine: Engine, program: EgglogProgram) -> None:
        self.engine = engine
        self.program = program
        self.next_handle = 0
        self._list_keys: set[tuple[int, ...]] = set()
        self._weights: set[int] = (
            set()
        )  #: handles of the input program's nodes that are computed from weights
        engine.run(program.text())

    # ---- writing -----------------------------------------------------------------------------------------

    def fresh(self) -> int:
        self.next_handle += 1
        return self.next_handle - 1

    def list_key(self, items: tuple[int, ...], pending: dict[int, list[tuple[Any, ...]]]) -> str:
        """The key of an integer list in tables; lists not seen before are added to ``pending`` by length."""
        key = "_".join(map(str, items)) or "-"
        if items not in self._list_keys:
            self._list_keys.add(items)
            pending.setdefault(len(items), []).append((key, *items))
        return key

    def load_nodes(self, nodes: list[NewNode], run: bool = True) -> None:
        """Adds e-nodes, or names those that exist."""
        tables: dict[str, list[tuple[Any, ...]]] = {}
        lists: dict[int, list[tuple[Any, ...]]] = {}
        wide: list[str] = []
        for handle, op, attrs, children, rule in nodes:
            constructor = self.program.schema.constructor(op, len(children))
            values = dict(attrs)
            columns: list[Any] = []
            for column in constructor.columns:
                value = encode(column, values[column.attr.name])
                columns.append(self.list_key(value, lists) if isinstance(value, tuple) else value)
            if self.program.is_wide(constructor):
                terms = [column_term(c, v) for c, v in zip(constructor.columns, columns, strict=True)]
                known = self.program.relation(handle in self._weights)
                wide.append(wide_node(constructor, handle, terms, children, known))
                continue
            tables.setdefault(constructor.table, []).append((rule, handle, *columns, *children))
        declarations = self.program.new_constructors()
        if declarations:
            self.engine.run(declarations)
        self._load_lists(lists)
        for table, rows in tables.items():
            self.engine.load(table, rows)
        if run:
            self.engine.run("(run-schedule (saturate load))")
        for commands in wide:  # each after what it reads, and before what reads it
            self.engine.run(f"{commands}\n(run-schedule (saturate load))")

    def _load_lists(self, lists: dict[int, list[tuple[Any, ...]]]) -> None:
        for length, rows in lists.items():
            declaration = self.program.new_list_length(length)
            if declaration:
                self.engine.run(declaration)
            self.engine.load(list_table(length), rows)

    def terms(self, nodes: Iterable[tuple[Constructor, Attrs, tuple[int, ...]]]) -> list[str]:
        """E-nodes that exist, given by their attributes and child handles, as egglog terms."""
        lists: dict[int, list[tuple[Any, ...]]] = {}
        out = []
        for constructor, attrs, children in nodes:
            values = dict(attrs)
            columns = []
            for column in constructor.columns:
                value = encode(column, values[column.attr.name])
                columns.append(
                    column_term(column, self.list_key(value, lists) if isinstance(value, tuple) else value)
                )
            out.append(f"({' '.join([constructor.name, *columns, *(f'(by_id {c})' for c in children)])})")
        if lists:
            self._load_lists(lists)
            self.engine.run("(run-schedule (saturate load))")
        return out

    def load_types(self, types: Sequence[tuple[int, TensorType | None]]) -> None:
        """The types of e-classes, None for those of nodes with several outputs."""
        lists: dict[int, list[tuple[Any, ...]]] = {}
        rows = [(h, self.list_key(_type_list(t), lists)) for h, t in types]
        self._load_lists(lists)
        self.engine.load("in_type", rows)

    def load_graph(self, graph: Graph) -> None:
        """The input program: node i gets handle i."""
        self.next_handle = len(graph.nodes)
        self._weights = {i for i, known in enumerate(graph.weights_only()) if known}
        self.load_types([(i, n.type if len(n.types) == 1 else None) for i, n in enumerate(graph.nodes)])
        self.load_nodes([(i, n.op, n.attrs, n.inputs, "") for i, n in enumerate(graph.nodes)])
        if self.program.counts_factors:
            self._load_starts(graph)
        self.engine.run("(run-schedule (saturate types))")

    def _load_starts(self, graph: Graph) -> None:
        """Marks where chains of products start."""
        self.engine.load("in_start", [(i,) for i in starts(graph)])
        self.engine.run("(run-schedule (saturate load))")

    # ---- reading -----------------------------------------------------------------------------------------

    def rows(self, frozen: Frozen) -> Iterator[NodeRow]:
        """Every e-node."""
        for constructor in self.program.schema.constructors():
            width = len(constructor.columns)
            decoders = [frozen.decoder(c.sort) for c in constructor.columns]
            memo: dict[tuple[Any, ...], Attrs] = {}
            for row in frozen.rows(constructor.name):
                inputs = tuple(row.inputs)
                key = inputs[:width]
                attrs = memo.get(key)
                if attrs is None:
                    values = [d(v) for d, v in zip(decoders, key, strict=True)]
                    attrs = memo[key] = decode(constructor, values)
                yield NodeRow(constructor, attrs, inputs[width:], row.output, inputs, row.subsumed)

    def handles(self, frozen: Frozen) -> dict[Any, int]:
        """The handle of each e-class that has one."""
        number = frozen.decoder("i64")
        return {row.inputs[0]: number(row.output) for row in frozen.rows("id_of")}

    def name_classes(self, frozen: Frozen, rows: list[NodeRow]) -> dict[Any, int]:
        """Gives handles to new e-classes; the handles of all."""
        handles = self.handles(frozen)
        named: list[NewNode] = []
        for ready in levels(handles, rows):
            keyed = sorted(
                ((r.constructor.name, _sortable(r.attrs), tuple(handles[c] for c in r.children)), i)
                for i, r in enumerate(ready)
            )
            for (_, _, children), i in keyed:
                r = ready[i]
                if r.output in handles:
                    continue
                handle = handles[r.output] = self.fresh()
                named.append((handle, r.constructor.op, r.attrs, children, ""))
        if named:
            self.load_nodes(named)
        return handles


def _type_list(type: TensorType | None) -> tuple[int, ...]:
    """What stands for a type in tables."""
    return (TUPLE,) if type is None else (DTYPES.index(type.dtype), *type.shape)


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


def _sortable(attrs: Attrs) -> str:
    return repr(attrs)
