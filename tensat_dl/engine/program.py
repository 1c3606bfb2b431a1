"""The egglog program of a run, without the facts of its graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import facts_of
from tensat_dl.core.graph import Attrs, Graph
from tensat_dl.core.rule import Attribute, PatternNode, RewriteRule, Side, Variable
from tensat_dl.engine import render
from tensat_dl.engine.compile import built_forms, compile_rule, variants_of
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.egglog import ESCAPE
from tensat_dl.engine.precount import Nodes, by_operator, most_matches
from tensat_dl.engine.schema import Constructor, Schema, encode
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
    comment,
    equal,
    relation,
)
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import AnyType, SymType
from tensat_dl.rewrite.classes import MANY
from tensat_dl.rewrite.groups import lengths, listed, one_member
from tensat_dl.rewrite.source import MAX_RANK, Form, Forms, Variant, forms_in, in_both_orders

HEADER = Text(
    """\
; ---- sorts. A tensor's type is a vector: element type, then dimensions.
(sort Ints (Vec i64))
(sort IntsSet (Set Ints))
(sort IntsMap (Map i64 Ints))
(sort T)
; ---- loading: tables name e-classes by integer handles
(ruleset load)
(function by_id (i64) T :merge old)
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

#: Depends on an input, by some e-node at least. Declared only where rules ask for it.
VARYING = Text(
    """\
; ---- depends on an input
(relation varying (T))"""
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


def _pattern(c: Constructor, ops: OpTable) -> RewriteRule:
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


def ranks_of(graph: Graph, ops: OpTable) -> set[int]:
    """The ranks of a graph's tensors, and the lengths of lists in attributes, which mostly are ranks too."""
    ranks = {len(t.shape) for n in graph.nodes for t in n.types}
    lists = {(d.name, a.name) for d in ops.values() for a in d.attrs if a.listed}
    return ranks | {
        len(v) for n in graph.nodes for a, v in n.attrs if isinstance(v, tuple) and (n.op, a) in lists
    }


@dataclass
class _Growing:
    """A rule, or the types of a constructor, compiled for the forms of e-nodes that were known at last."""

    version: object = None  #: of those forms
    variants: list[Variant] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  #: the ids of these variants
    count: int = 0  #: of those that have egglog rules
    compiled: CompiledRule | None = None
    told: int = 0  #: how many variants' targets are among the known forms

    def add(self, found: Iterable[Variant]) -> list[Variant]:
        """The variants that are new."""
        new = [v for v in found if id(v) not in self.seen]
        self.seen.update(map(id, new))
        self.variants += new
        return new


class EgglogProgram:
    """Declares constructors as they are needed, and compiles rules; if ``filtered``, so that each match can be
    accepted or refused.

    A rule is compiled for the forms that e-nodes have, and for more as rules that were applied bring more forms.
    Most rules of a pack never meet an e-node.
    """

    def __init__(
        self, ops: OpTable, rules: Sequence[RewriteRule], graph: Graph, filtered: bool = False
    ) -> None:
        self.schema = Schema(ops)
        self._filtered = filtered
        self._place = {r.name: k for k, r in enumerate(rules)}
        self._with_lists = [r for r in rules if r.takes_lists]
        self._listed: dict[tuple[str, int], RewriteRule] = {}  #: instances of those
        self._tried: set[str] = set()  #: those of them that are among the rules
        #: In order; those that take lists for each length that e-nodes have.
        self.rules = [r for r in rules if not r.takes_lists]
        self._growing: dict[tuple[str, bool], _Growing] = {}
        self._members: dict[str, _Growing] = {}  #: what group rules build
        self._types: dict[str, tuple[RewriteRule, _Growing]] = {}  #: of constructors
        reachable = _reachable(rules, {n.op for n in graph.nodes})
        functions = {fact.function for r in reachable for fact in facts_of(r.conditions)}
        #: Whether some rule asks for numbers of factors.
        self.counts_factors = not functions.isdisjoint(("factors", "start"))
        #: Whether some rule asks what depends on inputs.
        self.tells_varying = "varying" in functions
        self._built = {(n.op, len(n.args)) for r in rules if not r.takes_lists for n in r.target.nodes}
        self._declared: set[str] = set()  #: constructors
        self._lengths: set[int] = set()
        #: What e-nodes there may be.
        self.forms = Forms((), {})
        self._matched = self.forms  #: without the forms that rules take no part in
        self.learn(graph)

    # ---- forms of e-nodes --------------------------------------------------------------------------------

    def learn(self, graph: Graph) -> None:
        """Takes note of the e-nodes of a graph."""
        for node in graph.nodes:
            if node.op != "proj":
                self.schema.constructor(node.op, len(node.inputs))
        self.match_lists(by_operator((n.op, i, n.inputs) for i, n in enumerate(graph.nodes)))
        self._add_forms(forms_in(graph, self.schema.ops), ranks_of(graph, self.schema.ops))

    def _add_forms(self, forms: Iterable[Form], ranks: Iterable[int] = ()) -> None:
        new = [f for f in in_both_orders(forms, self.schema.ops) if f not in self.forms]
        self.forms = self.forms.and_more(new, ranks)
        few = [f for f in new if max(f.ranks, default=0) <= MAX_RANK]
        self._matched = self._matched.and_more(few, (r for r in self.forms.ranks if r <= MAX_RANK))

    def _version(self, ops: Iterable[str]) -> object:
        """Different for different forms of these operators; None if one of them has no e-node."""
        assert self._matched.known is not None
        counts = [len(self._matched.known.get(op, ())) for op in ops]
        return (self._matched.ranks, *counts) if all(counts) else None

    # ---- rules -------------------------------------------------------------------------------------------

    def compiled(
        self, rule: RewriteRule, filtered: bool | None = None
    ) -> tuple[CompiledRule | None, list[Command]]:
        """A rule compiled for the known forms, None if no e-node of these can match; and the commands that declare
        what is new of it."""
        staged = self._filtered if filtered is None else filtered
        state = self._growing.setdefault((rule.key, staged), _Growing())
        version = self._version(n.op for n in rule.source.nodes)
        if version == state.version:
            return state.compiled, []
        state.version = version
        new = state.add(variants_of(rule, self.schema, self._matched))
        more = compile_rule(rule, self.schema, new, first=state.count, filtered=staged)
        if more is None:
            return state.compiled, []
        state.count += sum(not v.ill_typed for v in new)
        commands = [*self.new_constructors(), *more.commands]
        if state.compiled is None:
            doc = [comment(f"---- rule {more.name}\n{rule.doc}")] if rule.doc else []
            state.compiled, commands = more, [*doc, *commands]
        else:
            state.compiled = state.compiled.with_variants(more)
        return state.compiled, commands

    def built(self, rule: RewriteRule) -> list[Command]:
        """Takes note of the e-nodes that a rule may build; the commands that declare what is new of their types."""
        if rule.kind != "group":
            state = self._growing[rule.key, self._filtered]
            one = rule
        else:
            state = self._members.setdefault(rule.key, _Growing())
            one = one_member(rule)
            version = self._version(n.op for n in one.source.nodes)
            if version != state.version:
                state.version = version
                state.add(self.schema.variants(one, self._matched))
        if state.told < len(state.variants):
            self._add_forms(built_forms(one, self.schema.ops, state.variants[state.told :]))
            state.told = len(state.variants)
        return self.new_types()

    def current(self) -> list[CompiledRule]:
        """The rules that are compiled, in order."""
        found = (self._growing.get((r.key, self._filtered)) for r in self.rules)
        return [s.compiled for s in found if s is not None and s.compiled is not None]

    def everything(self) -> list[Command]:
        """Compiles each rule for all that rules can build from the graph, as if each had been applied."""
        commands: list[Command] = []
        while True:
            before = self._matched
            for rule in self.rules:
                compiled, more = self.compiled(rule)
                commands += more
                if compiled is not None:
                    commands += self.built(rule)
            if self._matched == before:
                return commands

    def match_lists(self, nodes: Nodes) -> bool:
        """Adds the instances of list rules that these e-nodes may match to `rules`; whether there are new ones."""
        new = []
        for one in self._instances(nodes):
            commute = frozenset(n.result for n in one.source.nodes if self.schema.ops[n.op].commutative)
            if one.key not in self._tried and most_matches(one, nodes, commute):
                self._tried.add(one.key)
                new.append(one)
        self.rules.extend(new)
        self.rules.sort(key=lambda r: (self._place[r.name], r.count or 0))
        return bool(new)

    def _instances(self, nodes: Nodes) -> Iterator[RewriteRule]:
        """The instances of list rules for lists of as many operands as these e-nodes have."""
        for rule in self._with_lists:
            for n in lengths(rule, nodes.keys()):
                one = self._listed.get((rule.name, n))
                if one is None:
                    one = self._listed[rule.name, n] = listed(rule, n)
                if all(len(node.args) <= WIDE for node in one.nodes):
                    yield one

    # ---- constructors ------------------------------------------------------------------------------------

    def is_wide(self, c: Constructor) -> bool:
        """Whether nodes of a constructor have no rules of their own: `wide_node` loads them."""
        return c.arity > WIDE and (c.op, c.arity) not in self._built

    def wide_node(
        self, c: Constructor, handle: int, attrs: Attrs, children: Sequence[int], constant: bool
    ) -> list[Command]:
        """Adds a node of the input program that has no rules of its own; ``constant`` if it is computed from weights
        alone. Its type is loaded as well."""
        own, node = by_id(Lit(handle)), node_term(c, attrs, children)
        commands: list[Command] = [
            app("set", own, node),
            app("set", app("id_of", own), Lit(handle)),
            app("set", App(c.origin, node.args), Lit("")),
        ]
        if constant or self.tells_varying:
            commands.append(app("weights_only" if constant else "varying", own))
        return commands

    def header(self) -> list[Command]:
        """The beginning of the program, which does not depend on what is compiled."""
        commands: list[Command] = [HEADER]
        commands += [FACTORS] if self.counts_factors else []
        commands += [VARYING] if self.tells_varying else []
        return commands

    def new_constructors(self) -> list[Command]:
        """Declarations of constructors that were made since the last call, and types for new forms."""
        out: list[Command] = []
        ops = self.schema.ops
        for c in self.schema.constructors():
            if c.name in self._declared:
                continue
            self._declared.add(c.name)
            if c.op != "proj":
                out.append(comment(f"---- {ops[c.op].signature}"))
            if self.is_wide(c):
                out += c.declarations()
                continue
            out += constructor_commands(c, ops)
            if self.counts_factors:
                out += factors_commands(c, ops)
            if self.tells_varying:
                out += varying_commands(c, ops)
            if c.op != "proj":
                self._types[c.name] = _pattern(c, ops), _Growing()
        return out + self.new_types()

    def new_types(self) -> list[Command]:
        """The rules for the types of e-nodes whose forms are new."""
        assert self.forms.known is not None
        out: list[Command] = []
        for pattern, state in self._types.values():
            version = len(self.forms.known.get(pattern.declared, ()))
            if version == (state.version or 0):
                continue
            state.version = version
            new = state.add(self.schema.variants(pattern, self.forms))
            (node,) = pattern.source.nodes
            constructor = self.schema.constructor(node.op, len(node.args))
            out += type_rules(constructor, self.schema.ops, new, state.count)
            state.count += len(new)
        return out

    def new_list_length(self, length: int) -> list[Command]:
        """The loader of lists of a length, if it is not declared yet."""
        if length in self._lengths:
            return []
        self._lengths.add(length)
        return list_loader(length)


def _reachable(rules: Sequence[RewriteRule], ops: Iterable[str]) -> list[RewriteRule]:
    """The rules that could match e-nodes of these operators, or of operators that such rules build."""
    known, left, found = set(ops), {r.name: r for r in rules}, list[RewriteRule]()
    while True:
        now = [r for r in left.values() if all(n.op in known for n in r.source.nodes)]
        if not now:
            return found
        found += now
        for r in now:
            del left[r.name]
            known.update(n.op for n in r.target.nodes)
