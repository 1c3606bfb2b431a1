"""The types and attributes of a rule's source, node by node, under an assignment of ranks and axes.

Dimensions and attributes that the assignment leaves open are unknowns (see `tensat_dl.ops.symbolic`).

A rule about tensors of any rank has a variant for every assignment of ranks under which it type-checks. Most of these
never meet an e-node. So rules are compiled for the forms of e-nodes that there are: operators with the number and the
ranks of their operands, the rank of what they compute, and their axes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import base_of, every, is_every
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.attributes import attributes, defaults, unknown_attribute
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.lists import INDEX, Many
from tensat_dl.ops.symbolic import Condition, EvaluationError, NotKnown, Of, Opaque
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import AnyType, SymType, unknown_tensor
from tensat_dl.rewrite.conditions import conjuncts

#: Tensors of more dimensions than this take no part in rules.
MAX_RANK = 6

#: Variables with what they stand for ("tensor", "axis", "ints") and the rank, axis or length that they are given; and
#: elements of lists that are used as axes, as in ``p[2]`` (a "place").
Choice = Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True, order=True)
class Form:
    """``operands`` has a rank for each parameter of the operator that is given, variadic ones included: the operands
    of these have one rank. ``axes`` has the value of each attribute that is an axis, in the order of declaration, and
    ``count`` is the number of operands if the operator is variadic, else 0; None is one that is not known."""

    op: str
    operands: tuple[int, ...]
    result: int
    axes: tuple[int | None, ...] = ()
    count: int | None = 0

    @property
    def ranks(self) -> frozenset[int]:
        return frozenset((*self.operands, self.result))

    def fits(self, other: Form) -> bool:
        """Whether they are the same, as far as both are known."""
        ranks = (self.op, self.operands, self.result) == (other.op, other.operands, other.result)
        open = zip((*self.axes, self.count), (*other.axes, other.count), strict=True)
        return ranks and all(a == b or a is None or b is None for a, b in open)


def form_of(decl: OpDecl, operands: Sequence[int], result: int, attrs: Mapping[str, Any]) -> Form:
    """The form of an application to operands of these ranks."""
    values = map(attrs.get, decl.axes)
    axes = tuple(v if isinstance(v, int) else None for v in values)
    count = len(operands) if decl.max_inputs is None else 0
    return Form(decl.name, tuple(operands[: len(decl.inputs)]), result, axes, count)


@dataclass(frozen=True)
class Forms:
    """The contents that an e-graph may have: tensors of these ``ranks``, lists in attributes of as many elements, and
    nodes of the ``known`` forms, by operator; of every form that type-checks if nothing is known."""

    ranks: tuple[int, ...]
    known: Mapping[str, frozenset[Form]] | None = None

    @staticmethod
    def of(ranks: Iterable[int], known: Iterable[Form]) -> Forms:
        """The known forms that have no other ranks."""
        among = tuple(sorted(ranks))
        by_op: dict[str, set[Form]] = defaultdict(set)
        for form in known:
            if form.ranks.issubset(among):
                by_op[form.op].add(form)
        return Forms(among, {op: frozenset(found) for op, found in by_op.items()})

    def and_more(self, forms: Iterable[Form], ranks: Iterable[int] = ()) -> Forms:
        """These and further known forms."""
        assert self.known is not None, "every form is there"
        by_op = dict(self.known)
        among = {*self.ranks, *ranks}
        for form in forms:
            by_op[form.op] = by_op.get(form.op, frozenset()) | {form}
            among |= form.ranks
        return Forms(tuple(sorted(among)), by_op)

    def version(self, op: str) -> object:
        """Equal where `choices` are the same for a node of an operator."""
        return self.ranks, None if self.known is None else self.known.get(op, frozenset())

    def operands(self, op: str, given: Sequence[int | None], count: int) -> Iterator[tuple[int, ...]]:
        """The ranks that an operator's operands may have, in order, where some of them are given; ``count`` operands
        of a variadic one."""
        if self.known is None:
            yield from product(*((rank,) if rank is not None else self.ranks for rank in given))
            return
        found = {f.operands for f in self._of(op, count) if len(f.operands) == len(given)}
        for ranks in sorted(found):
            if all(g is None or g == rank for g, rank in zip(given, ranks, strict=True)):
                yield ranks

    def axes(self, op: str, ranks: tuple[int, ...], count: int, k: int) -> Iterable[int]:
        """The values that the attribute may have that is the axis number k of an operator, on operands of such
        ranks."""
        if self.known is None:
            return range(max(self.ranks, default=0))
        found = {f.axes[k] for f in self._of(op, count) if f.operands == ranks}
        return sorted(axis for axis in found if axis is not None)

    def _of(self, op: str, count: int) -> Iterator[Form]:
        assert self.known is not None
        return (f for f in self.known.get(op, ()) if f.count in (0, count, None))

    def __contains__(self, form: Form) -> bool:
        if self.known is None or form in (known := self.known.get(form.op, frozenset())):
            return True
        return any(map(form.fits, known))


def in_both_orders(forms: Iterable[Form], ops: OpTable) -> frozenset[Form]:
    """These forms, and those of commutative operators in the other order, in which patterns match them as well."""
    both = ((f, replace(f, operands=f.operands[::-1])) if ops[f.op].commutative else (f,) for f in forms)
    return frozenset(chain.from_iterable(both))


def forms_in(graph: Graph, ops: OpTable) -> frozenset[Form]:
    """The forms of a graph's nodes; of each with several outputs by the first of them."""
    found = set()
    for n in graph.nodes:
        if n.op != "proj":
            operands = [len(graph.nodes[i].type.shape) for i in n.inputs]
            found.add(form_of(ops[n.op], operands, len(n.types[0].shape), dict(n.attrs)))
    return frozenset(found)


@dataclass
class Variant:
    """One assignment of ranks and axes. ``guards`` are the checks of the compiled rule, ``facts`` the guards that
    only an e-graph can decide (weights-only, constant values)."""

    types: dict[str, SymType]
    env: dict[str, Any]
    chosen: dict[str, int]  #: ranks of tensor variables, values of axis variables, lengths of list variables
    source_attrs: list[dict[str, Any]] = field(default_factory=list)
    target_attrs: list[dict[str, Any]] = field(default_factory=list)
    guards: list[Condition] = field(default_factory=list)
    facts: list[Condition] = field(default_factory=list)
    premises: tuple[Condition, ...] = ()  #: conditions under which the source is well-typed
    any_length: bool = False  #: whether this is about lists of unknown length (see `tensat_dl.ops.lists`)
    ill_typed: str = ""  #: why the rule never applies under this assignment; empty if it may

    def bind(self, name: str, t: SymType, varies: bool) -> None:
        """Names a tensor of the source. Expressions see members, ``w`` that varies or ``w[0]``, as lists."""
        base = base_of(name)
        if self.any_length and varies:
            self.types[base] = t
            self.env[base] = Many.like(t)
            return
        self.types[name] = t
        self.env[base] = (*self.env.get(base, ()), t) if varies or base != name else t

    def operands(self, node: PatternNode, scope: Mapping[str, Any]) -> list[AnyType | Many]:
        """The types of a node's operands; ``scope`` has lists of unknown length."""
        return [scope[base_of(a)] if is_every(a) else self.types[a] for a in node.args]

    def let(self, name: str, value: Any) -> None:
        """Names an attribute's value. Expressions see ``a[0]`` as an element of a list."""
        self.env[name] = value
        if self.any_length and base_of(name) != name:
            self.env[base_of(name)] = Many.like(value)
        elif base_of(name) != name:
            self.env[base_of(name)] = (*self.env.get(base_of(name), ()), value)

    def copy(self) -> Variant:
        return Variant(
            dict(self.types),
            dict(self.env),
            dict(self.chosen),
            list(self.source_attrs),
            any_length=self.any_length,
        )

    def name(self, text: str, varies: bool) -> str | Of:
        """The name of an unknown, of which each member of a list may have its own."""
        return Of(base_of(text), INDEX) if self.any_length and varies else text


@dataclass(eq=False)
class Prefix:
    """The first nodes of a rule's source under an assignment. Each continuation of it is worked out once."""

    rule: RewriteRule
    infer: Inference
    variant: Variant
    conditions: tuple[Condition, ...] = ()  #: under which these nodes are well-typed
    length: int = 0
    strict: bool = False  #: whether `NotKnown` is raised where it is not known if a node is well-typed
    _longer: dict[tuple[object, ...], Prefix | None] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.length == len(self.rule.source.nodes)

    @property
    def next(self) -> PatternNode:
        """The first node that is not part of it."""
        return self.rule.source.nodes[self.length]

    def longer(self, choice: Choice) -> Prefix | None:
        """The prefix with the next node, whose new variables are chosen (see `choices`); None if that node is never
        well-typed then."""
        key = tuple(choice.items())
        if key not in self._longer:
            self._longer[key] = self._extended(choice)
        return self._longer[key]

    def _extended(self, choice: Choice) -> Prefix | None:
        node, varies = self.next, self.rule.members
        attempt = self.variant.copy()
        for name, (kind, value) in choice.items():
            if kind != "place":
                attempt.chosen[name] = value
            if kind == "tensor":
                own = base_of(name) in varies
                attempt.bind(name, unknown_tensor(attempt.name(name, own), value), own)
            elif kind == "axis":
                attempt.let(name, value)
            elif kind == "ints":
                attempt.env[name] = sym.elements(name, value)
        placed = [_placed(attempt, name, axis) for name, (kind, axis) in choice.items() if kind == "place"]
        try:
            attrs, equalities = _pattern_attrs(node, self.infer.table, attempt)
            equalities += placed
            typing = self.infer(node.op, attempt.operands(node, attempt.env), attrs)
        except (IllTyped, EvaluationError) as e:
            if self.strict and (isinstance(e, NotKnown) or (isinstance(e, IllTyped) and e.unknown)):
                raise NotKnown(str(e)) from None
            return None
        attempt.source_attrs.append(attrs)
        attempt.bind(node.result, typing.types[0], node.result in varies)
        attempt.guards = self.variant.guards + equalities
        conditions = (*self.conditions, *equalities, *typing.conditions)
        return Prefix(self.rule, self.infer, attempt, conditions, self.length + 1, self.strict)


def _placed(variant: Variant, name: str, axis: int) -> Condition:
    """Gives an element of a list variable a value; the condition that it has this value."""
    base, k = base_of(name), int(name[len(base_of(name)) + 1 : -1])
    elements = variant.env[base]
    variant.env[base] = (*elements[:k], axis, *elements[k + 1 :])
    condition = sym.equal(elements[k], axis)
    assert isinstance(condition, Condition)
    return condition


def axes_in_lists(rule: RewriteRule, ops: OpTable) -> Mapping[str, frozenset[int]]:
    """By list variable the positions of elements that are used as axes: types depend on these."""
    found: dict[str, set[int]] = defaultdict(set)
    for node in rule.nodes:
        for attribute in node.attrs:
            match attribute.value:
                case ex.Index(ex.Name(name), ex.Const(int(k))) if ops[node.op][attribute.name].type == "axis":
                    found[name].add(k)
    return {name: frozenset(positions) for name, positions in found.items()}


def choices(
    node: PatternNode,
    infer: Inference,
    forms: Forms,
    variant: Variant,
    places: Mapping[str, frozenset[int]] | None = None,
) -> Iterator[Choice]:
    """Assignments of the tensor, axis and list variables that this node is the first to mention, without ranks that
    its operator never takes together. ``places`` are elements of lists that are assigned, too."""
    decl = infer.table[node.op]
    bound = {arg: len(t.shape) for arg, t in variant.types.items()}
    if variant.any_length:
        bound |= {every(arg): rank for arg, rank in bound.items()}
    last = len(decl.inputs) - 1
    # Operands of a variadic operator have one rank.
    parameters = [node.args[k:] if k == last else node.args[k : k + 1] for k in range(last + 1)]
    parameters = [args for args in parameters if args]
    given = [next((bound[a] for a in args if a in bound), None) for args in parameters]
    names: list[tuple[str, str]] = []
    numbers: list[int | None] = []  #: for each of these the number of the axis that it is; None for a list
    for attribute in node.attrs:
        a = decl[attribute.name]
        if not isinstance(attribute.pattern, Variable) or attribute.pattern.name in variant.env:
            continue
        if a.type == "axis":
            names.append((attribute.pattern.name, "axis"))
            numbers.append(decl.axes.index(a.name))
        elif a.listed:
            names.append((attribute.pattern.name, "ints"))
            numbers.append(None)
    count = len(node.args)
    for ranks in forms.operands(node.op, given, count):
        tensors: dict[str, tuple[str, int]] = {}
        for args, rank in zip(parameters, ranks, strict=True):
            for arg in args:
                tensors.setdefault(arg, ("tensor", bound.get(arg, rank)))
        taken = tuple(tensors[arg][1] for arg in node.args)
        agree = all(taken[k] == ranks[min(k, last)] for k in range(len(taken)))
        if not agree or not infer.possible(node.op, taken):
            continue
        new = {arg: rank for arg, rank in tensors.items() if arg not in bound}
        options = (forms.ranks if k is None else forms.axes(node.op, ranks, count, k) for k in numbers)
        for values in product(*options):
            chosen = new | {n: (kind, v) for (n, kind), v in zip(names, values, strict=True)}
            elements = [
                (f"{n}[{k}]", v)
                for (n, kind), v in zip(names, values, strict=True)
                if kind == "ints"
                for k in sorted((places or {}).get(n, ()))
                if k < v
            ]
            for axes in product(*(range(v) for _, v in elements)):
                yield chosen | {n: ("place", axis) for (n, _), axis in zip(elements, axes, strict=True)}


def _pattern_attrs(
    node: PatternNode, ops: OpTable, variant: Variant
) -> tuple[dict[str, Any], list[Condition]]:
    """Values of a source node's attributes, binding variables; and equalities that the pattern demands.

    An attribute given by an expression is an unknown that must equal the expression.
    """
    decl = ops[node.op]
    own = node.each is not None
    values = defaults(decl)
    equalities: list[Condition] = []
    computed: list[Attribute] = []
    for attribute in node.attrs:
        a = decl[attribute.name]
        match attribute.pattern:
            case Fixed(value):
                values[a.name] = value
            case Variable(name):
                if name not in variant.env:
                    variant.let(name, unknown_attribute(a, variant.name(name, base_of(name) != name)))
                values[a.name] = variant.env[name]
            case Elements(items):
                elements: list[Any] = []
                for k, item in enumerate(items):
                    match item:
                        case Fixed(value):
                            elements.append(value)
                        case Variable(name):
                            elements.append(variant.env.setdefault(name, sym.atom("attr", name)))
                        case Computed():
                            assert isinstance(attribute.value, ex.ListExpr)
                            assert isinstance(attribute.value.items, tuple)
                            element = sym.atom("attr", variant.name(f"{node.result}:{a.name}", own), k)
                            elements.append(element)
                            wanted = evaluate(attribute.value.items[k], variant.env)
                            equalities += conjuncts(sym.equal(element, wanted))
                values[a.name] = tuple(elements)
            case Computed():
                computed.append(attribute)
    inputs = variant.operands(node, variant.env)
    given = attributes(decl, node.attrs, variant.env, inputs) if computed else {}
    for attribute in computed:
        a = decl[attribute.name]
        value = given[a.name]
        if _is_constant(value):
            values[a.name] = value
            continue
        if isinstance(value, Opaque):  # such as dtype = dtype(x)
            values[a.name] = value
            continue
        unknown_name = variant.name(f"{node.result}:{a.name}", own)
        unknown: Any
        if a.listed:  # the length is matched like a list variable's, the elements are compared
            unknown = sym.elements(unknown_name, len(value))
            variant.chosen[str(unknown_name)], variant.env[str(unknown_name)] = len(value), unknown
        else:
            unknown = unknown_attribute(a, unknown_name)
        equalities += conjuncts(sym.equal(unknown, value))
        values[a.name] = unknown
    return values, equalities


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(v) for v in value)
    return isinstance(value, int | float | str | bool)
