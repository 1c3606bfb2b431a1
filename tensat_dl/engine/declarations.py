"""The parts of an egglog program that rules do not change: sorts, operators, their types, the rows of e-nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensat_dl.core import expression as ex
from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import Attribute, PatternNode, RewriteRule, Side, Variable
from tensat_dl.engine import render
from tensat_dl.engine.egglog import ESCAPE
from tensat_dl.engine.schema import Constructor, encode
from tensat_dl.engine.syntax import (
    App,
    Command,
    EgglogRule,
    Lit,
    Term,
    Text,
    Var,
    app,
    by_id,
    equal,
    relation,
)
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import AnyType, SymType
from tensat_dl.rewrite.classes import MANY
from tensat_dl.rewrite.source import Variant

HEADER = Text(
    """\
; ---- sorts. A tensor's type is a vector: element type, then dimensions.
(sort Ints (Vec i64))
(sort IntsSet (Set Ints))
(sort IntsMap (Map i64 Ints))
(sort T)
; ---- loading: tables name e-classes by integer handles
(ruleset load)
(constructor by_id (i64) T)
(function id_of (T) i64 :merge (min old new))
(function ints_of (String) Ints :merge old)
(relation in_equal (i64 i64))
(rule ((in_equal i j) (= x (by_id i)) (= y (by_id j))) ((union x y)) :ruleset load :name "load equalities")
(relation merged (T))
(relation in_merged (i64))
(rule ((in_merged i) (= x (by_id i))) ((merged x)) :ruleset load :name "load merged")
; ---- types. One type twice stays; two different types of one e-class become the vector (-1): an alarm.
(ruleset types)
(function type_of (T) Ints
  :merge (map-get (map-insert (map-insert (map-empty) 1 old) 2 (vec-of -1)) (set-length (set-of old new))))
(relation in_type (i64 String))
(rule ((in_type i k) (= x (by_id i)) (= t (ints_of k))) ((set (type_of x) t)) :ruleset load :name "load types")
; ---- computed from weights alone; the value of a constant
(relation weights_only (T))
(function value_of (T) f64 :merge old)"""
)

#: How many factors an e-class's shortest product has: 1 unless it is one. Chains of products start at what the input
#: program computes otherwise. Declared only where rules ask for it.
FACTORS = Text(
    """\
; ---- chains of products
(function factors_of (T) i64 :merge (min old new))
(relation start (T))
(relation in_start (i64))
(rule ((in_start i) (= x (by_id i))) ((start x) (set (factors_of x) 1)) :ruleset load :name "load starts")"""
)

#: Depends on an input, by some e-node at least. Declared only where rules ask for it. Of the input program it is
#: loaded: from one e-node to the next it would be found out in as many steps as the program is deep.
VARYING = Text(
    """\
; ---- depends on an input
(relation varying (T))
(relation in_varying (i64))
(rule ((in_varying i) (= x (by_id i))) ((varying x)) :ruleset load :name "load varying")"""
)

#: Nodes of more inputs than this are loaded one by one, with their types, and list rules do not match them: the
#: engine takes time cubic in the number of inputs to plan a rule about them.
WIDE = 64

#: What a type vector says of a node with several outputs.
TUPLE = -2


#: A row of a table that e-nodes or lists are loaded from.
Row = tuple[int | float | str, ...]


def list_table(length: int) -> str:
    """The table of integer lists of a length. (Those of operators start with "in_" and a capital letter.)"""
    return f"in_list{length}"


def list_loader(length: int) -> list[Command]:
    """Declares such a table: (key, elements)."""
    items = [Var(f"a{i}") for i in range(length)]
    vector = app("vec-of", *items) if length else app("vec-empty")
    row = app(list_table(length), _K, *items)
    name = f"load lists of {length}"
    return [
        relation(list_table(length), "String", *["i64"] * length),
        EgglogRule(name, "load", (row,), (app("set", app("ints_of", _K), vector),), "one line"),
    ]


def list_key(items: tuple[int, ...]) -> str:
    """The key of a list of integers."""
    return "_".join(map(str, items)) or "-"


_NODE = Var("e")  # the node that a rule about a constructor's nodes is about
_I, _J, _X, _T, _K = map(Var, "ijxtk")


def _columns(c: Constructor) -> list[Var]:
    return [Var(f"a{i}") for i in range(len(c.columns))]


def _inputs(c: Constructor) -> list[Var]:
    return [Var(f"x{i}") for i in range(c.arity)]


def _rule(name: str, c: Constructor, facts: Iterable[App], action: App) -> EgglogRule:
    """A rule about each of a constructor's nodes."""
    node = equal(_NODE, app(c.name, *_columns(c), *_inputs(c)))
    return _typing(name, (node, *facts), action)


def _typing(name: str, body: tuple[App, ...], action: App) -> EgglogRule:
    return EgglogRule(name, "types", body, (action,), "one line")


def constructor_commands(c: Constructor, ops: OpTable) -> list[Command]:
    """Declarations, loader and weights-only rule of a constructor."""
    commands = [*c.declarations(), *c.loader()]
    known = app("weights_only", _NODE)
    if c.op == "proj":
        body = (equal(_NODE, app(c.name, _I, _X)), app("weights_only", _X))
        return [*commands, _typing(f"weights {c.name}", body, known)]
    if ops[c.op].commutative:
        commands += c.in_both_orders()
    if c.op != "input" and not ops[c.op].opaque:
        commands.append(_rule(f"weights {c.name}", c, (app("weights_only", x) for x in _inputs(c)), known))
    if c.op == "fill":
        commands.append(_rule("value", c, (), app("set", app("value_of", _NODE), _columns(c)[0])))
    return commands


def factors_commands(c: Constructor, ops: OpTable) -> list[Command]:
    """The rules that count the factors of a constructor's nodes."""

    def rule(count: Term, *facts: App, note: str = "") -> EgglogRule:
        return _rule(f"factors {c.name}{note}", c, facts, app("set", app("factors_of", _NODE), count))

    factors = [equal(n, app("factors_of", x)) for n, x in zip((_I, _J), _inputs(c), strict=False)]
    if c.op == "matmul" and c.arity == 2:
        act = next(a for a, column in zip(_columns(c), c.columns, strict=True) if column.attr.name == "act")
        product = rule(app("+", _I, _J), equal(act, Lit("none")), *factors)
        return [product, rule(Lit(1), app("!=", act, Lit("none")), note=" with act")]
    if c.op == "smul" or (c.op in ops and ops[c.op].view):  # a scaled product is one with a scaled factor
        return [rule(_I, factors[0])]
    # Of a concatenation the parts are multiplied, not the whole: it counts as more than any rule allows.
    return [rule(Lit(MANY if c.op == "concat" else 1))]


def varying_commands(c: Constructor, ops: OpTable) -> list[Command]:
    """The rules that tell which of a constructor's nodes depend on an input."""
    leaf = c.op == "input" or (c.op in ops and ops[c.op].opaque)
    facts = [()] if leaf else [(app("varying", x),) for x in _inputs(c)]
    return [_rule(f"varying {c.name} {i}", c, fact, app("varying", _NODE)) for i, fact in enumerate(facts)]


def node_term(c: Constructor, attrs: Attrs, children: Sequence[int]) -> App:
    """An e-node as a term, its operands by their handles."""
    columns: list[Term] = []
    for value in encode(c, attrs):
        if isinstance(value, tuple):
            columns.append(render.ints(value))
        else:
            columns.append(Lit(value.translate(ESCAPE) if isinstance(value, str) else value))
    return app(c.name, *columns, *(by_id(Lit(k)) for k in children))


def node_row(
    c: Constructor, handle: int, attrs: Attrs, children: Sequence[int], rule: str
) -> tuple[Row, list[tuple[int, ...]]]:
    """The row of a constructor's table for an e-node that ``rule`` builds, and the lists whose keys it has."""
    values = encode(c, attrs)
    row = (rule, handle, *(list_key(v) if isinstance(v, tuple) else v for v in values), *children)
    return row, [v for v in values if isinstance(v, tuple)]


def pattern_of(c: Constructor, ops: OpTable) -> RewriteRule:
    """A rule whose source is one application of the constructor, every attribute a variable."""
    decl = ops[c.op]
    span = decl.span
    names = {a.name: f"{a.name}.a" for a in decl.attrs}
    attrs = tuple(Attribute(a, ex.Name(name, span=span), Variable(name)) for a, name in names.items())
    node = PatternNode("e", c.op, tuple(f"x{i}" for i in range(c.arity)), attrs, None, span)
    return RewriteRule(
        f"type {c.name}", Side((node,), ()), Side((), ()), (), frozenset(), None, "", span, c.op
    )


def type_rules(c: Constructor, ops: OpTable, found: Sequence[Variant], first: int) -> list[EgglogRule]:
    """Rules that compute the type of a node from the types of its inputs, one for each assignment of ranks.
    ``first`` is the number of assignments that have rules.

    Nodes are only built where they type-check, so constraints need no checking here.
    """
    xs = _inputs(c)
    typed = app("set", app("type_of", _NODE), _T)
    out: list[EgglogRule] = []
    seen: set[tuple[App, ...]] = set()
    for i, v in enumerate(found, first):
        columns: list[Term] = []
        extra: list[App] = []
        for column in c.columns:
            value = v.source_attrs[0][column.attr.name]
            if column.element is not None:
                value = value[column.element]
            columns.append(render.value(value))
            if column.sort == "Ints":
                extra.append(equal(app("vec-length", columns[-1]), Lit(len(value))))
        body = [equal(_NODE, app(c.name, *columns, *xs))]
        for x in xs:
            vector = render.variable(x.name, "type")
            body.append(equal(vector, app("type_of", x)))
            body.append(equal(app("vec-length", vector), Lit(len(v.types[x.name].shape) + 1)))
        if ops[c.op].outputs:
            out += _tuple_rules(c, ops, v.types, v.source_attrs[0], (*body, *extra), i)
            continue
        same = next((x for x in xs if v.types[x.name] == v.types["e"]), None)
        result = type_vector(v.types["e"]) if same is None else render.variable(same.name, "type")
        facts = (*body, equal(_T, result), *extra)
        if facts not in seen:
            seen.add(facts)
            out.append(_typing(f"type {c.name} #{i}", facts, typed))
    return out


def type_vector(t: AnyType) -> App:
    return app("vec-of", render.value(t.dtype), *map(render.integer, t.shape))


def _tuple_rules(
    c: Constructor,
    ops: OpTable,
    types: dict[str, SymType],
    attrs: dict[str, object],
    body: tuple[App, ...],
    i: int,
) -> list[EgglogRule]:
    """Types of a node with several outputs: a mark for the node, and the type of each ``Proj`` of it."""
    inputs = [types[x.name] for x in _inputs(c)]
    try:
        outputs = infer(ops, c.op, inputs, attrs).types
    except (IllTyped, EvaluationError):
        return []
    p = Var("p")
    mark = app("set", app("type_of", _NODE), app("vec-of", Lit(TUPLE)))
    rules = [_typing(f"type {c.name} #{i}", body, mark)]
    for k, output in enumerate(outputs):
        facts = (*body, equal(p, app("Proj", Lit(k), _NODE)), equal(_T, type_vector(output)))
        typed = app("set", app("type_of", p), _T)
        rules.append(_typing(f"type {c.name}.{k} #{i}", facts, typed))
    return rules
