"""How operators are encoded: one egglog constructor for each operator and number of inputs.

Attributes are primitive columns, not e-nodes. The columns are the attributes in declared order (int[n] takes n
columns) and then the inputs. Lists of any length are values of the sort ``Ints``; element types are the codes of
`tensat_dl.core.graph.DTYPES`; truth values are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.graph import DTYPES, Attrs, AttrValue
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.syntax import (
    Command,
    Declaration,
    EgglogRule,
    Term,
    Var,
    app,
    by_id,
    equal,
    relation,
)
from tensat_dl.ops.table import AttrDecl, OpDecl, OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.orders import either_order
from tensat_dl.rewrite.source import Forms, Variant
from tensat_dl.rewrite.variants import Assignments

#: Names that the generated program uses itself; an operator of that name, or of the next ones, gets a "_".
_TAKEN = frozenset(("T", "Ints", "IntsMap", "IntsSet", "Proj"))
#: The sorts of egglog.
_SORTS = frozenset(("Vec", "Set", "Map", "String", "Unit", "Rational", "BigInt", "BigRat", "PyObject"))


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute column: its egglog sort, the attribute, and for int[n] which element."""

    sort: str
    attr: AttrDecl
    element: int | None


@dataclass(frozen=True, slots=True)
class Constructor:
    """An operator with a number of inputs."""

    name: str
    op: str
    columns: tuple[Column, ...]
    arity: int

    @property
    def table(self) -> str:
        """The relation that facts of this constructor are loaded into: (rule, id, attributes, input ids)."""
        return f"in_{self.name}"

    @property
    def either(self) -> str:
        """The constructor that has every node of a commutative operator, with its operands in both orders."""
        return f"{self.name}:either"

    @property
    def origin(self) -> str:
        """The function that says which rule first built a node."""
        return f"by_{self.name}"

    def declarations(self) -> list[Command]:
        sorts = (*(c.sort for c in self.columns), *["T"] * self.arity)
        return [
            Declaration("constructor", self.name, sorts, "T"),
            Declaration("function", self.origin, sorts, "String", Var("old")),
        ]

    def in_both_orders(self) -> list[Command]:
        """Declares `either` and the rule that fills it. Nodes that differ in the order alone become one e-class."""
        columns = [Var(f"a{i}") for i in range(len(self.columns))]
        node, x, y = Var("e"), Var("x"), Var("y")
        orders = (app("union", node, app(self.either, *columns, *both)) for both in ((x, y), (y, x)))
        found = equal(node, app(self.name, *columns, x, y))
        return [
            Declaration("constructor", self.either, (*(c.sort for c in self.columns), "T", "T"), "T"),
            EgglogRule(f"orders {self.name}", "types", (found,), tuple(orders), "one line"),
        ]

    def loader(self) -> list[Command]:
        """Declares `table` and the rule that turns its rows into nodes. It does not wait for the rows of operands: it
        makes their e-classes by their handles, so a table is loaded at once, however deep the graph is."""
        rule, n, node = Var("rule"), Var("n"), Var("e")
        columns = [Var(f"a{i}") for i in range(len(self.columns))]
        inputs = [Var(f"i{i}") for i in range(self.arity)]
        found = [app(self.table, rule, n, *columns, *inputs)]
        args: list[Term] = []
        for name, column in zip(columns, self.columns, strict=True):
            if column.sort == "Ints":
                args.append(Var(f"v{name}"))
                found.append(equal(args[-1], app("ints_of", name)))
            else:
                args.append(name)
        operands = [Var(f"x{i}") for i in range(self.arity)]
        args += operands
        actions = (
            *(app("let", x, by_id(handle)) for x, handle in zip(operands, inputs, strict=True)),
            app("let", node, app(self.name, *args)),
            app("union", by_id(n), node),
            app("set", app("id_of", node), n),
            app("set", app(self.origin, *args), rule),
        )
        sorts = ["String" if c.sort == "Ints" else c.sort for c in self.columns]
        return [
            relation(self.table, "String", "i64", *sorts, *["i64"] * self.arity),
            EgglogRule(f"load {self.name}", "load", tuple(found), actions, "one line"),
        ]


class Schema:
    """The constructors of a program. `proj` selects an output of a node with several."""

    def __init__(self, ops: OpTable) -> None:
        self.ops = ops
        self.infer = Inference(ops)  #: shared by all rules of the program
        self._made: dict[tuple[str, int], Constructor] = {}
        self._names: dict[str, Constructor] = {}
        self._assignments: dict[RewriteRule, Assignments] = {}
        self._either: dict[str, frozenset[str]] = {}
        index = AttrDecl("index", "int", None, (), None)
        self._add(Constructor("Proj", "proj", (Column("i64", index, None),), 1))

    def _add(self, constructor: Constructor) -> Constructor:
        self._made[constructor.op, constructor.arity] = constructor
        self._names[constructor.name] = constructor
        return constructor

    def constructor(self, op: str, arity: int) -> Constructor:
        """The constructor of ``op`` with ``arity`` inputs, made when it is first asked for."""
        known = self._made.get((op, arity))
        if known is not None:
            return known
        decl = self.ops[op]
        name = "".join(part.capitalize() or "_" for part in op.split("_"))
        if decl.max_inputs != decl.min_inputs:
            name += str(arity)
        while name in _TAKEN or name in _SORTS or name in self._names:
            name += "_"
        return self._add(Constructor(name, op, tuple(_columns(decl)), arity))

    def variants(self, rule: RewriteRule, forms: Forms) -> list[Variant]:
        """A rule's variants for e-nodes of these forms."""
        if rule not in self._assignments:
            self._assignments[rule] = Assignments(rule, self.infer)
        return self._assignments[rule].variants(forms)

    def in_either_order(self, rule: RewriteRule) -> frozenset[str]:
        """The results of those source nodes of a rule that are matched in both orders of their operands."""
        found = self._either.get(rule.key)
        if found is None:
            found = self._either[rule.key] = either_order(rule, self.ops)
        return found

    def constructors(self) -> tuple[Constructor, ...]:
        return tuple(self._made.values())


def sort_of(attr: AttrDecl) -> str:
    """The sort of an attribute's columns."""
    sorts = {"float": "f64", "string": "String", "choice": "String", "ints": "Ints", "axes": "Ints"}
    return sorts.get(attr.type, "i64")


def _columns(decl: OpDecl) -> list[Column]:
    out = []
    for a in decl.attrs:
        elements = [None] if a.length is None else range(a.length)
        out += [Column(sort_of(a), a, i) for i in elements]
    return out


#: A value of an attribute column.
Value = int | float | str | tuple[int, ...]


def encode(constructor: Constructor, attrs: Attrs) -> list[Value]:
    """The values of the attribute columns."""
    values = dict(attrs)
    return [_encoded(column, values[column.attr.name]) for column in constructor.columns]


def _encoded(column: Column, value: AttrValue) -> Value:
    if column.element is not None:
        assert isinstance(value, tuple)
        return value[column.element]
    if column.attr.type == "dtype":
        return DTYPES.index(str(value))
    if isinstance(value, bool):
        return int(value)
    return value


def decode(constructor: Constructor, values: Sequence[Any]) -> Attrs:
    """Attributes from the values of a row's attribute columns."""
    of: dict[AttrDecl, list[Any]] = {}
    for column, value in zip(constructor.columns, values, strict=True):
        of.setdefault(column.attr, []).append(value)
    return tuple((attr.name, decode_attribute(attr, own)) for attr, own in of.items())


def decode_attribute(attr: AttrDecl, values: Sequence[Any]) -> AttrValue:
    """An attribute's value from the values of its columns."""
    if attr.length is not None:
        return tuple(values)
    (value,) = values
    if attr.type == "dtype":
        return DTYPES[value]
    return bool(value) if attr.type == "bool" else value
