"""The operator table: declarations of ``rules/ops.tsr`` and of user files, in the form that later stages use."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import Span
from tensat_dl.core.expression import at, calls_of
from tensat_dl.core.graph import DTYPES, Attrs, AttrValue

AttrType = Literal["int", "float", "bool", "string", "dtype", "axis", "ints", "axes", "choice"]
ATTR_TYPES = ("int", "float", "bool", "string", "dtype", "axis", "ints", "axes")

#: Infix operators on tensors stand for these.
INFIX = {"+": "ewadd", "-": "ewsub", "*": "ewmul", "/": "ewdiv", "@": "matmul"}
#: And the other way round.
SIGNS = {op: sign for sign, op in INFIX.items()}
#: The operator that a sign before a tensor stands for.
NEGATION = "neg"


@dataclass(frozen=True, slots=True)
class TensorParam:
    """A tensor that an operator or a block takes."""

    name: str
    kind: Literal["one", "optional", "many"]
    typed: bool  # whether ": tensor" was written
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A constraint on operands and attributes; ``message`` is the declaration's text about it, if any."""

    value: ex.Expr | None
    message: str | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class AttrDecl:
    """A named attribute. ``length`` is n for int[n]; ``default`` is None where a value must be given."""

    name: str
    type: AttrType
    length: int | None
    choices: tuple[str, ...]
    default: AttrValue | None

    @property
    def listed(self) -> bool:
        """Whether it is a list of integers of any length."""
        return self.type in ("ints", "axes")

    @property
    def words(self) -> tuple[str, ...]:
        """All strings that are values of it; empty where any string is, or none."""
        return DTYPES if self.type == "dtype" else self.choices


@dataclass(frozen=True, slots=True)
class OpDecl:
    """One operator. ``shapes`` and ``dtypes`` have one entry per output; a dtype of None means the first input's."""

    name: str
    doc: str
    inputs: tuple[TensorParam, ...]
    attrs: tuple[AttrDecl, ...]
    outputs: tuple[str, ...]  #: names of several outputs; empty for an operator with one
    requires: tuple[Requirement, ...]
    lets: tuple[tuple[str, ex.Expr], ...]
    shapes: tuple[ex.Expr, ...]
    dtypes: tuple[ex.Expr | None, ...]
    flops: ex.Expr | None
    presets: tuple[tuple[str, str, ex.Expr], ...]  #: (attribute, preset, value)
    view: bool
    commutative: bool  #: its two operands may be exchanged
    opaque: bool
    composition: ex.Expr | None
    span: Span

    @property
    def meaning(self) -> list[object]:
        """All of it that results depend on."""
        return [getattr(self, f.name) for f in fields(self) if f.name not in ("doc", "span", "flops")]

    @property
    def min_inputs(self) -> int:
        return sum(p.kind != "optional" for p in self.inputs)

    @property
    def truth_values(self) -> frozenset[int]:
        """The positions of operands that are required to be truth values."""
        names = set()
        for stmt in self.requires:
            match stmt.value:
                case ex.Binary("==", ex.Call("dtype", (ex.Name(name),)), ex.Name("bool")):
                    names.add(name)
        return frozenset(i for i, p in enumerate(self.inputs) if p.name in names)

    @property
    def max_inputs(self) -> int | None:
        """None if there is no limit."""
        return None if any(p.kind == "many" for p in self.inputs) else len(self.inputs)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the attributes that are an axis each."""
        return tuple(a.name for a in self.attrs if a.type == "axis")

    def __getitem__(self, name: str) -> AttrDecl:
        """The attribute of this name, which the operator has."""
        found = self.attr(name)
        assert found is not None, (self.name, name)
        return found

    def ordered(self, attrs: Mapping[str, AttrValue]) -> Attrs:
        """Attributes by name as nodes have them."""
        return tuple((a.name, attrs[a.name]) for a in self.attrs)

    def attr(self, name: str) -> AttrDecl | None:
        return next((a for a in self.attrs if a.name == name), None)

    def preset(self, attr: str, name: str) -> ex.Expr | None:
        return next((e for a, p, e in self.presets if (a, p) == (attr, name)), None)

    @property
    def signature(self) -> str:
        """As in ``matmul(x, y, bias?; act = none)``."""
        marks = {"one": "", "optional": "?", "many": ".."}
        inputs = ", ".join(p.name + marks[p.kind] for p in self.inputs)
        attrs = ", ".join(a.name for a in self.attrs)
        return f"{self.name}({inputs}{'; ' + attrs if attrs else ''})"


class UnknownOperatorError(KeyError):
    """Nothing declares an operator of this name."""

    def __str__(self) -> str:
        return f"no operator `{self.args[0]}` is declared, in rules/ops.tsr or in a file of one's own"


class OpTable(Mapping[str, OpDecl]):
    """Operators by name."""

    def __init__(self, decls: Iterable[OpDecl]) -> None:
        self._decls = {d.name: d for d in decls}
        self._contents: dict[str, str] = {}
        #: What `compose` remembers, by what it is used for.
        self.steps: dict[str, dict[Any, Any]] = defaultdict(dict)
        #: What `infer` remembers.
        self.typings: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "typings": {}}  # the same bytes, whatever was typed

    def __getitem__(self, name: str) -> OpDecl:
        try:
            return self._decls[name]
        except KeyError:
            raise UnknownOperatorError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._decls)

    def __len__(self) -> int:
        return len(self._decls)

    @property
    def commutative(self) -> frozenset[str]:
        """The commutative operators."""
        return frozenset(name for name, decl in self._decls.items() if decl.commutative)

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these names that are operators, with the operators that they are composed of."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            op = waiting.pop()
            if op in self and op not in found:
                found.add(op)
                waiting += operators_in(self[op].composition)
        return frozenset(found)

    def content(self, name: str) -> str:
        """Eight characters that tell compositions with different definitions apart; "" for another operator."""
        composition = self[name].composition
        if composition is None:
            return ""
        if name not in self._contents:
            parts = {call.fn: self.content(call.fn) for call in calls_of(composition) if call.fn in self}
            text = repr((self[name].inputs, self[name].attrs, composition, sorted(parts.items())))
            self._contents[name] = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self._contents[name]


def operators_in(tree: Any) -> Iterator[str]:
    """The operators, and functions, that an expression calls."""
    match tree:
        case ex.Call(fn):
            yield fn
        case ex.Binary(op) if op in INFIX:
            yield INFIX[op]
        case ex.Unary("-"):
            yield NEGATION
    for part in ex.children(tree):
        yield from operators_in(part)


def wanted(a: AttrDecl) -> str:
    """The values that an attribute accepts, in words."""
    if a.choices:
        return f"one of {', '.join(a.choices)}"
    if a.length is not None:
        return f"a list of {a.length} integers, or one integer for all"
    names = {"int": "an integer", "float": "a number", "bool": "true or false", "string": "a string"}
    names |= {"dtype": "an element type", "axis": "an integer"}
    names |= {"ints": "a list of integers", "axes": "a list of integers"}
    return names[a.type]


def have_common_values(a: AttrDecl, b: AttrDecl) -> bool:
    """Whether some word may be the value of either of two attributes, which take words. An element type is not the
    string that is its name."""
    if (a.type == "dtype") != (b.type == "dtype"):
        return False
    return not a.words or not b.words or not set(a.words).isdisjoint(b.words)


def constant(expr: ex.Expr) -> AttrValue | None:
    """The value of a literal, of a name standing for itself, or of a list of integers; else None."""
    match expr:
        case ex.Const(value):
            return value
        case ex.Name(id):
            return id
        case ex.Unary("-", ex.Const(value)) if isinstance(value, int | float):
            return -value
        case ex.ListExpr(items) if isinstance(items, tuple):
            values = [constant(i) for i in items]
            if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
                return tuple(v for v in values if isinstance(v, int))
    return None


def coerce(decl: AttrDecl, value: object) -> AttrValue | None:
    """The value as an attribute of this declaration, or None if it is of the wrong type."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    are_ints = isinstance(value, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    if is_int and decl.length is not None:
        return (value,) * decl.length  # type: ignore[return-value]
    if is_int and decl.type == "float":
        return float(value)  # type: ignore[arg-type]
    accepted = {
        "int": is_int,
        "axis": is_int,
        "float": isinstance(value, float),
        "bool": isinstance(value, bool),
        "string": isinstance(value, str),
        "dtype": value in DTYPES,
        "choice": value in decl.choices,
        "ints": are_ints,
        "axes": are_ints,
    }
    fits = accepted[decl.type] if decl.length is None else are_ints and len(value) == decl.length  # type: ignore
    return value if fits else None  # type: ignore[return-value]
