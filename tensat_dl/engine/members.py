"""Rules with several patterns as joins of small tables.

A match relates several patterns: those of a multi-pattern rule, or the operands of an e-node with many. The matches
of one pattern alone are its *members*, of which there are few. The items that concern one pattern alone (e-nodes,
ranks, values computed from its types) are evaluated once for each member; the join over members then compares plain
columns. Operands of an equation between two patterns become columns of one name, so that the join looks them up. The
join finds only one of a match and its mirror image where the rule's conditions allow that.

Where one e-node has many operands that name the same tensor, such as eight slices of one, a join of all e-nodes may
start from that tensor, and combine each of its slices with each: 8^8 ways for one match. The members have fewer
variables: beside what they share, the operand, which the e-node tells. Patterns that are alike but for the names of
their variables, as those of a list's operands are, have their members in one table, whatever the length of the list.

The variants of a rule of one pattern differ in ranks, which concern types alone. What its e-nodes match has one table
for all of them: e-nodes are joined once, and again for new e-nodes alone, not for each type that a variant asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tensat_dl.core.rule import PatternNode
from tensat_dl.engine.compiled import ruleset
from tensat_dl.engine.render import variable
from tensat_dl.engine.syntax import (
    App,
    Command,
    EgglogRule,
    Term,
    Var,
    app,
    equal,
    names,
    new_ruleset,
    relation,
)
from tensat_dl.engine.writer import Query, Writer
from tensat_dl.rewrite.source import Variant

#: Primitives of type i64 that have a value whenever their operands do, vectors of known length given; and equations.
_SAFE = frozenset(("=", "vec-get", "vec-length", "+", "-", "*"))
#: Functions that are looked up in a body, and the sorts of their values.
_LOOKED_UP = {"type_of": "Ints", "value_of": "f64", "id_of": "i64"}


#: The relations of members that are declared, by their ruleset and by what fills them. A rule has one such ruleset,
#: whatever the lengths of its lists, and whether its matches are selected.
MemberTables = dict[str, dict[object, str]]


@dataclass
class _Part:
    """One pattern: what its member rule matches, and the variables known there with their sorts."""

    atoms: list[App]
    matched: dict[Var, str]  #: variables that the e-nodes bind
    known: dict[Var, str]  #: those and what is computed from them
    items: list[App] = field(default_factory=list)
    keys: set[Var] = field(default_factory=set)  #: columns that other parts have, too

    def knows(self, term: Term) -> bool:
        return self.known.keys() >= set(names(term))


def member_rules(
    writer: Writer,
    variant: Variant,
    items: Sequence[App],
    sorts: dict[Var, str],
    wanted: Sequence[Var],
    tag: str,
    tables: MemberTables,
) -> tuple[list[Command], list[App], list[App]]:
    """Declarations of the member relations that are new, ``tag.K`` for the first pattern K that has its members
    there, the rules that fill them, and the join's body: a row for each pattern, and the remaining checks.

    ``items`` are look-ups, checks and computations in order, ``sorts`` those of computed variables, ``wanted`` the
    variables that the join's head has.
    """
    parts = [_part(writer, variant, inside) for inside in writer.parts]
    joined = _place(parts, items, sorts)
    needed = {*wanted, *names(*joined)}
    rows: list[App] = []
    exported: set[Var] = set()
    commands: list[Command] = []
    for i, part in enumerate(parts):
        others = {n for other in parts if other is not part for n in (*other.matched, *other.keys)}
        columns = {
            n: sort
            for n, sort in part.known.items()
            if (n in others and (n in part.matched or n in part.keys)) or (n in needed and n not in exported)
        }
        exported.update(columns)
        declared, row = _filled(writer, (*part.atoms, *part.items), columns, f"{tag}.{i}", tables)
        commands += declared
        rows.append(row)
    return commands, rows, joined


def _renamed(terms: Sequence[App]) -> tuple[Term, ...]:
    """The terms with variables that are numbered in the order of their first use."""
    numbers = {v: Var(str(k)) for k, v in enumerate(dict.fromkeys(names(*terms)))}

    def renamed(term: Term) -> Term:
        if isinstance(term, App):
            return App(term.function, tuple(map(renamed, term.args)))
        return numbers[term] if isinstance(term, Var) else term

    return tuple(map(renamed, terms))


def _part(writer: Writer, variant: Variant, inside: Set[str]) -> _Part:
    atoms: list[App] = []
    matched: dict[Var, str] = {}
    for node, atom in zip(writer.rule.source.nodes, writer.source_atoms(variant), strict=True):
        if node.result not in inside:
            continue
        atoms.append(atom)
        _bind(matched, writer, node, atom)
    return _Part(atoms, matched, dict(matched))


def _bind(matched: dict[Var, str], writer: Writer, node: PatternNode, atom: App) -> None:
    """Adds the variables of an e-node's pattern with their sorts: those of attributes, the result, operands."""
    result, application = atom.args
    assert isinstance(application, App)
    columns = writer.schema.constructor(node.op, len(node.args)).columns
    attrs, operands = application.args[: len(columns)], application.args[len(columns) :]
    for column, term in zip(columns, attrs, strict=True):
        if isinstance(term, Var):
            matched.setdefault(term, column.sort)
    for name in names(result, *operands):
        matched.setdefault(name, "T")


def matched_once(
    writer: Writer, query: Query, wanted: Sequence[Var], tag: str, tables: MemberTables
) -> tuple[list[Command], tuple[App, ...]]:
    """The relation ``tag.0`` of the matches of a single-pattern rule's e-nodes at whatever ranks, and the rule that
    fills it, unless another variant has the same; and the body of a variant, which looks at its rows. ``wanted`` are
    the variables that the actions need."""
    matched: dict[Var, str] = {}
    # Behind the e-nodes are comparisons of what they bind.
    for node, atom in zip(writer.rule.source.nodes, query.atoms, strict=False):
        _bind(matched, writer, node, atom)
    facts = [c for c in query.checked if all(isinstance(a, Var) and matched.get(a) == "T" for a in c.args)]
    rest = [c for c in (*query.checked, *query.computed) if c not in facts]
    # An attribute that is computed from types, as a shape may be, needs these where the e-node is matched.
    types = set(names(*query.atoms)) - matched.keys()
    own = [c for c in rest if types.intersection(names(c)) and types | matched.keys() >= set(names(c))]
    needed = {*wanted, *names(*rest)}
    columns = {v: sort for v, sort in matched.items() if v in needed}
    commands, row = _filled(writer, (*query.atoms, *facts, *own), columns, f"{tag}.0", tables)
    return commands, (row, *rest)


def _filled(
    writer: Writer, body: tuple[App, ...], columns: Mapping[Var, str], name: str, tables: MemberTables
) -> tuple[list[Command], App]:
    """A row of the relation of what a body matches, under a new name unless there is one already, and the commands
    that declare what is new."""
    own = ruleset("members", writer.rule.name)
    commands: list[Command] = [] if own in tables else [new_ruleset(own)]
    known = tables.setdefault(own, {})
    filled = _renamed((*body, app("", *columns)))  # whatever variables are called
    row = app(known.setdefault(filled, name), *columns)
    if row.function == name:
        commands += [relation(name, *columns.values()), EgglogRule(name, own, body, (row,))]
    return commands, row


def _place(parts: Sequence[_Part], items: Sequence[App], sorts: dict[Var, str]) -> list[App]:
    """Gives each part the items that concern it alone. Returns the others, for the join."""
    joined: list[App] = []
    for k, item in enumerate(items):
        match item:
            case App("=", (Var() as name, _)) if name in sorts:
                defined, sort, looked_up = {name}, sorts[name], False
            case App("=", (Var() as name, App(function, _))) if function in _LOOKED_UP:
                defined, sort, looked_up = {name}, _LOOKED_UP[function], True
            case _:
                defined, sort, looked_up = set(), "", False
        needs = set(names(item)) - defined
        homes = [p for p in parts if needs <= p.known.keys()]
        if not needs or not homes or not any(isinstance(a, App) for a in item.args):
            if not _as_key(parts, item, Var("?key", str(k))):
                joined.append(item)
            continue
        # What is looked up is known wherever it can be; what is computed or checked, once.
        for part in homes if looked_up else homes[:1]:
            part.items.append(item)
            part.known |= dict.fromkeys(defined, sort)
    return joined


def _as_key(parts: Sequence[_Part], item: App, key: Var) -> bool:
    """Turns an equation between integers of two parts into a column of each."""
    match item:
        case App("=", (App() as left, App() as right)) if is_safe(item):
            homes = [next((p for p in parts if p.knows(side)), None) for side in (left, right)]
        case _:
            return False
    first, second = homes
    if first is None or second is None or first is second:
        return False
    for part, side in ((first, left), (second, right)):
        part.items.append(equal(key, side))
        part.known[key] = "i64"
        part.keys.add(key)
    return True


def is_safe(term: Term) -> bool:
    """Whether an expression, or the sides of an equation, are integers, elements of types, sums and products."""
    return not isinstance(term, App) or (term.function in _SAFE and all(map(is_safe, term.args)))


# ---- mirror images --------------------------------------------------------------------------------------------


def first_of_pair(tensors: Sequence[str], mirror: Sequence[int]) -> Iterator[App]:
    """Items that keep those matches which are not younger than their mirror image."""
    at = next(i for i, j in enumerate(mirror) if i != j)
    pair = tensors[at], tensors[mirror[at]]
    for tensor in pair:
        yield equal(variable(tensor, "id"), app("id_of", variable(tensor)))
    yield app("<=", *(variable(tensor, "id") for tensor in pair))


def symmetric(bodies: Sequence[Sequence[App]], renaming: dict[str, str]) -> bool:
    """Whether a renaming maps the checks of all variants onto each other, so that mirror images are matches."""
    images = {variable(a).name: variable(b).name for a, b in renaming.items()}

    def image(term: Term) -> Term:
        match term:
            case Var(name, part):
                return Var(images.get(name, name), part)
            case App(function, args):
                return App(function, tuple(map(image, args)))
        return term

    plain = {_facts(body) for body in bodies}
    return plain == {_facts([image(item) for item in body]) for body in bodies}


def _facts(body: Sequence[Term]) -> frozenset[object]:
    """The checks of a variant, equations as the sets of terms that they make equal."""
    equations: list[set[Term]] = []
    others: set[Term] = set()
    for item in body:
        match item:
            case App("=", sides):
                touched = [c for c in equations if c & {*sides}]
                equations = [c for c in equations if c not in touched] + [{*sides}.union(*touched)]
            case _:
                others.add(item)
    return frozenset([*others, *map(frozenset, equations)])
