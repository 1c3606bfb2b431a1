"""How operators are encoded: one egglog constructor for each operator and number of inputs.

Attributes are primitive columns, not e-nodes. The columns are the attributes in declared order (int[n] takes n
columns) and then the inputs. Lists of any length are values of the sort ``Ints``; element types are the codes of
`tensat_dl.core.types.DTYPES`; truth values are 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.core.graph import Attrs, AttrValue
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import DTYPES
from tensat_dl.ops.table import AttrDecl, OpDecl, OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.forms import Forms
from tensat_dl.rewrite.source import Variant
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
    def declaration(self) -> str:
        sorts = [c.sort for c in self.columns] + ["T"] * self.arity
        columns = " ".join(sorts)
        return (
            f"(constructor {self.name} ({columns}) T)\n(function {self.origin} ({columns}) String :merge old)"
        )

    @property
    def table(self) -> str:
        """The relation that facts of this constructor are loaded into: (rule, id, attributes, input ids)."""
        return f"in_{self.name}"

    @property
    def origin(self) -> str:
        """The function that says which rule first built a node."""
        return f"by_{self.name}"

    @property
    def loader(self) -> str:
        """Declares `table` and the rule that turns its rows into nodes."""
        sorts = ["String" if c.sort == "Ints" else c.sort for c in self.columns] + ["i64"] * self.arity
        a = [f"a{i}" for i in range(len(self.columns))]
        body = []
        args = []
        for name, column in zip(a, self.columns, strict=True):
            if column.sort == "Ints":
                body.append(f"(= v{name} (ints_of {name}))")
                args.append(f"v{name}")
            else:
                args.append(name)
        for i in range(self.arity):
            body.append(f"(= x{i} (by_id i{i}))")
            args.append(f"x{i}")
        row = " ".join(["rule", "n", *a, *(f"i{i}" for i in range(self.arity))])
        return (
            f"(relation {self.table} ({' '.join(['String', 'i64', *sorts])}))\n"
            f"(rule (({self.table} {row}) {' '.join(body)})\n"
            f"      ((let e ({' '.join([self.name, *args])})) (set (by_id n) e) (set (id_of e) n)\n"
            f"       (set ({' '.join([self.origin, *args])}) rule))"
            f' :ruleset load :name "load {self.name}")'
        )


class Schema:
    """The constructors of a program. `proj` selects an output of a node with several."""

    def __init__(self, ops: OpTable) -> None:
        self.ops = ops
        self.infer = Inference(ops)  #: shared by all rules of the program
        self._made: dict[tuple[str, int], Constructor] = {}
        self._names: dict[str, Constructor] = {}
        self._assignments: dict[RewriteRule, Assignments] = {}
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

    def constructors(self) -> tuple[Constructor, ...]:
        return tuple(self._made.values())


def _columns(decl: OpDecl) -> list[Column]:
    sorts = {"float": "f64", "string": "String", "choice": "String", "ints": "Ints"}
    out = []
    for a in decl.attrs:
        sort = sorts.get(a.type, "i64")
        if a.length is None:
            out.append(Column(sort, a, None))
        else:
            out += [Column(sort, a, i) for i in range(a.length)]
    return out


def encode(column: Column, value: AttrValue) -> int | float | str | tuple[int, ...]:
    """The value of a column for an attribute's value."""
    if column.element is not None:
        assert isinstance(value, tuple)
        return value[column.element]
    if column.attr.type == "dtype":
        return DTYPES.index(str(value))
    if isinstance(value, bool):
        return int(value)
    return value


def decode(constructor: Constructor, values: list[object]) -> Attrs:
    """Attributes from the values of a row's attribute columns."""
    out: list[tuple[str, AttrValue]] = []
    lists: dict[str, list[int]] = {}
    for column, value in zip(constructor.columns, values, strict=True):
        a = column.attr
        if column.element is not None:
            assert isinstance(value, int)
            lists.setdefault(a.name, []).append(value)
            if column.element == (a.length or 0) - 1:
                out.append((a.name, tuple(lists[a.name])))
        elif a.type == "dtype":
            assert isinstance(value, int)
            out.append((a.name, DTYPES[value]))
        elif a.type == "bool":
            out.append((a.name, bool(value)))
        else:
            out.append((a.name, value))  # type: ignore[arg-type]
    return tuple(out)
