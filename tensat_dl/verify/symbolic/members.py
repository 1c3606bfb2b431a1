"""Whether the members of a group or list rule are alike, so that one of them stands for all in a proof."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import base_of, calls_of, index_of, member
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.symbolic import Condition
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.conditions import Facts
from tensat_dl.rewrite.groups import instantiate, listed
from tensat_dl.rewrite.source import MAX_RANK, Forms
from tensat_dl.rewrite.variants import Assignments, differing
from tensat_dl.verify.symbolic.unproved import Unproved

#: Ranks at which rules are proved.
RANKS = Forms(tuple(range(MAX_RANK + 1)))
#: Functions in expressions whose values do not depend on shapes.
SHAPELESS = frozenset(("dtype", "is_float", "is_number", "holds"))


def check_members(rule: RewriteRule, infer: Inference) -> None:
    """Raises `Unproved` for a group or list rule whose members may have different ranks or axes, or different element
    types where it asks for these: one member in sight stands for all."""
    parts = (
        *rule.conditions,
        *(a.value for n in rule.nodes for a in n.attrs),
        *(e for _, e in rule.target.lets),
    )
    about_types = any(call.fn in SHAPELESS for call in calls_of(parts)) or any(
        n.op == "cast" for n in rule.nodes
    )
    expanded = listed if rule.takes_lists else instantiate
    two = expanded(rule, 2)
    attributes = (name for node in two.source.nodes for a in node.attrs for name in a.variables())
    varying = {base_of(name) for name in (*two.tensor_variables(), *attributes) if index_of(name)}
    # What says something of some members alone is not seen in so few.
    assert rule.index is not None
    alike = tuple(c for c in rule.conditions if _is_of_each(c, varying, rule.index))
    rule, parts = replace(rule, conditions=alike), (*alike, *parts[len(rule.conditions) :])
    # Members that no condition names are like the last.
    count = max((k + 2 for k in _members_named(parts, varying)), default=2)
    whole = expanded(rule, count)
    for variant in Assignments(whole, infer, met=True).variants(RANKS):
        if variant.ill_typed:
            continue
        if differing(variant):
            raise Unproved("its members may have different ranks")
        chosen = ([variant.chosen.get(member(name, k)) for name in varying] for k in range(count))
        if len({*map(tuple, chosen)}) > 1:
            raise Unproved("its members may have different axes")
        facts = Facts()
        facts.add(c for c in (*variant.premises, *variant.guards, *variant.facts) if isinstance(c, Condition))
        types: dict[str, set[object]] = {}
        for name in filter(index_of, whole.tensor_variables()):
            types.setdefault(base_of(name), set()).add(facts.value(variant.types[name].dtype))
        if about_types and any(len(found) > 1 for found in types.values()):
            raise Unproved("its members may have different element types")


def _is_of_each(tree: Any, lists: Collection[str], index: str) -> bool:
    """Whether a condition is about each member as it is about any other, those aside that it names by number."""
    match tree:
        case ex.Index(ex.Name(name), ex.Name(place)) if name in lists:
            return place == index
        case ex.Index(ex.Name(name), ex.Const(int(k))) if name in lists:
            return k >= 0
        case ex.Name(name):
            return name != index and name not in lists
        case ex.EachIn():
            return False
    return all(_is_of_each(part, lists, index) for part in ex.children(tree))


def _members_named(tree: Any, lists: Collection[str]) -> Iterator[int]:
    """The members of lists that expressions name by number."""
    match tree:
        case ex.Index(ex.Name(name), ex.Const(int(k))) if name in lists:
            yield k
    for part in ex.children(tree):
        yield from _members_named(part, lists)
