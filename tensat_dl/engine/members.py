"""Multi-pattern rules as joins of small tables.

A match relates several patterns. What concerns one of them alone (its e-nodes, ranks, values computed from its types)
is done once for each of its own matches, the *members*, of which there are few; the join over members then
compares plain columns. Operands of an equation between two patterns become columns of one name, so that the join
looks them up. Of a match and its mirror image the join finds one where the rule's conditions allow for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled import ruleset
from tensat_dl.engine.render import variable
from tensat_dl.engine.writer import Writer
from tensat_dl.rewrite.source import Variant

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+')
_NAME = re.compile(r"\?.*|c\d+\.\d+")
#: Primitives of type i64 that have a value whenever their operands do, vectors of known length given.
_SAFE = frozenset(("vec-get", "vec-length", "+", "-", "*"))
#: Functions that define a name in a body, and its sort.
_DEFINING = {"type_of": "Ints", "value_of": "f64", "id_of": "i64"}


@dataclass
class _Part:
    """One source pattern: what its member rule matches, and the names known there with their sorts."""

    atoms: list[str]
    matched: dict[str, str]  #: names that the e-nodes bind
    names: dict[str, str]  #: those and what is computed from them
    items: list[str] = field(default_factory=list)
    keys: dict[str, None] = field(default_factory=dict)  #: columns that other parts have, too


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def names_in(text: str) -> set[str]:
    """The variables of egglog text."""
    return {t for t in tokens(text) if _NAME.fullmatch(t)}


def member_rules(
    writer: Writer,
    variant: Variant,
    items: Sequence[str],
    sorts: dict[str, str],
    wanted: Sequence[str],
    tag: str,
) -> tuple[list[str], list[str]]:
    """Declarations and rules of the member relations ``tag.0``, ``tag.1``, .., and the join's body.

    ``items`` are look-ups, checks and computations in order, ``sorts`` those of computed names, ``wanted`` the
    names that the join's head has.
    """
    parts = [_part(writer, variant, output) for output in writer.rule.source.outputs]
    joined = _place(parts, items, sorts)
    needed = {*wanted, *(n for item in joined for n in names_in(item))}
    lines: list[str] = []
    body: list[str] = []
    exported: set[str] = set()
    members = ruleset("members", writer.rule.name)
    for i, part in enumerate(parts):
        others = {n for other in parts if other is not part for n in (*other.matched, *other.keys)}
        columns = [
            n
            for n in part.names
            if (n in others and (n in part.matched or n in part.keys)) or (n in needed and n not in exported)
        ]
        exported.update(columns)
        name = f"{tag}.{i}"
        row = f"({' '.join([name, *columns])})"
        lines.append(f"(relation {name} ({' '.join(part.names[c] for c in columns)}))")
        text = "\n       ".join([*part.atoms, *part.items])
        lines.append(f'(rule ({text})\n      ({row})\n      :ruleset {members} :name "{name}")')
        body.append(row)
    return lines, [*body, *joined]


def _part(writer: Writer, variant: Variant, output: str) -> _Part:
    inside = _tree(writer.rule, output)
    atoms: list[str] = []
    matched: dict[str, str] = {}
    for node, attrs, atom in zip(
        writer.rule.source.nodes, variant.source_attrs, writer.source_atoms(variant), strict=True
    ):
        if node.result not in inside:
            continue
        atoms.append(atom)
        constructor = writer.schema.constructor(node.op, len(node.args))
        terms = writer.columns(node, attrs, variant)
        for column, term in zip(constructor.columns, terms, strict=True):
            for name in names_in(term):
                matched.setdefault(name, column.sort)
        for name in (node.result, *node.args):
            matched.setdefault(variable(name), "T")
    return _Part(atoms, matched, dict(matched))


def _tree(rule: RewriteRule, output: str) -> set[str]:
    """The results of the e-nodes that an output's pattern consists of."""
    nodes = {n.result: n for n in rule.source.nodes}
    found: set[str] = set()
    waiting = [output]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in found:
            found.add(name)
            waiting += nodes[name].args
    return found


def _place(parts: Sequence[_Part], items: Sequence[str], sorts: dict[str, str]) -> list[str]:
    """Gives each part the items that concern it alone; those that are left for the join."""
    joined: list[str] = []
    for k, item in enumerate(items):
        defined, sort = _defines(item, sorts)
        needs = names_in(item) - {defined}
        homes = [p for p in parts if needs <= p.names.keys()]
        if not needs or item.count("(") == 1 or not homes:
            if not _as_key(parts, item, f"?key.{k}"):
                joined.append(item)
            continue
        # What is looked up is known wherever it can be; what is computed or checked, once.
        for part in homes if sort in _DEFINING.values() and defined not in sorts else homes[:1]:
            part.items.append(item)
            if defined:
                part.names[defined] = sort
    return joined


def _defines(item: str, sorts: dict[str, str]) -> tuple[str, str]:
    """The name that a body's equation gives to a value, and its sort; empty if it compares."""
    found = tokens(item)
    if found[:2] != ["(", "="] or not _NAME.fullmatch(found[2]):
        return "", ""
    if found[2] in sorts:
        return found[2], sorts[found[2]]
    sort = _DEFINING.get(found[4], "") if found[3] == "(" else ""
    return (found[2], sort) if sort else ("", "")


def _as_key(parts: Sequence[_Part], item: str, key: str) -> bool:
    """Turns an equation between integers of two parts into a column of each."""
    sides = _sides(item)
    if sides is None or not all(is_safe(s) and s.startswith("(") for s in sides):
        return False
    homes = [[p for p in parts if names_in(s) <= p.names.keys()] for s in sides]
    if not all(homes) or homes[0][0] is homes[1][0]:
        return False
    for part, side in zip((homes[0][0], homes[1][0]), sides, strict=True):
        part.items.append(f"(= {key} {side})")
        part.names[key] = "i64"
        part.keys[key] = None
    return True


def _sides(item: str) -> tuple[str, str] | None:
    """The two sides of an equation."""
    found = tokens(item)
    if found[:2] != ["(", "="]:
        return None
    depth, out, current = 0, [], []
    for t in found[2:-1]:
        current.append(t)
        depth += (t == "(") - (t == ")")
        if depth == 0:
            out.append(" ".join(current).replace("( ", "(").replace(" )", ")"))
            current = []
    return (out[0], out[1]) if len(out) == 2 else None


def is_safe(text: str) -> bool:
    """Whether an expression, or the sides of an equation, are integers, elements of types, sums and products."""
    found = tokens(text)
    if found[:2] == ["(", "="]:
        found = found[2:]
    return all(b in _SAFE for a, b in pairwise(found) if a == "(")


# ---- mirror images --------------------------------------------------------------------------------------------


def first_of_pair(tensors: Sequence[str], mirror: Sequence[int]) -> Iterator[str]:
    """Items that keep those matches which are not younger than their mirror image."""
    at = next(i for i, j in enumerate(mirror) if i != j)
    a, b = variable(tensors[at]), variable(tensors[mirror[at]])
    for name in (a, b):
        yield f"(= {name}.id (id_of {name}))"
    yield f"(<= {a}.id {b}.id)"


def symmetric(bodies: Sequence[Sequence[str]], renaming: dict[str, str]) -> bool:
    """Whether a renaming maps the checks of all variants onto each other, so that mirror images are matches."""
    images = {variable(a): variable(b) for a, b in renaming.items()}

    def image(token: str) -> str:
        base, dot, rest = token.partition(".")
        return images.get(base, base) + dot + rest if token.startswith("?") else token

    def facts(body: Sequence[str], rename: bool) -> frozenset[object]:
        """The checks of a variant, equations as the sets of terms that they make equal."""
        texts = [" ".join(image(t) if rename else t for t in tokens(item)) for item in body]
        equal: list[set[str]] = []
        others: set[object] = set()
        for text in texts:
            sides = _sides(text)
            if sides is None:
                others.add(text)
                continue
            touched = [c for c in equal if c & {*sides}]
            equal = [c for c in equal if c not in touched] + [{*sides}.union(*touched)]
        return frozenset([*others, *map(frozenset, equal)])

    plain, renamed = ({facts(body, rename) for body in bodies} for rename in (False, True))
    return plain == renamed
