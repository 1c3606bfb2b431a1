"""A compiled rule, and what its relations and rulesets are called."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensat_dl.core.expression import facts_of
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.syntax import App, Command, Var, run_once


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """``commands`` declare relations and rules. The rules are in the rulesets ``find:R`` (or ``rule:R`` for a
    single-pattern rule) and ``apply:R``; ``find-old:R`` is the join of a multi-pattern rule restricted to outputs in
    the relation `old_relation`, which is loaded by handles. ``tensors`` are the T columns of the match relation, in
    order."""

    rule: RewriteRule
    commands: tuple[Command, ...]
    tensors: tuple[str, ...]
    attrs: tuple[tuple[str, Var], ...]  #: further columns of the match relation: (sort, variable)
    new_nodes: int  #: e-nodes that one application adds at most
    mirror: tuple[int, ...] | None = None  #: see `symmetry.mirror`
    #: The rows that a rule joins whose matches have rows, for each variant: relations of variables, one for each of
    #: several patterns. The join of a variant has as many matches as these have rows in common, or fewer.
    joins: tuple[tuple[App, ...], ...] = ()
    #: The ruleset that fills the relations of members, if there are any. The instances of a list rule have one.
    members: str = ""
    #: What of a single-pattern rule is declared once some of its matches are selected. Most need it never, and for
    #: many operands egglog takes long to plan it.
    selecting: tuple[Command, ...] = ()

    def with_variants(self, more: CompiledRule) -> CompiledRule:
        """The rule with further variants."""
        return replace(
            self,
            commands=(*self.commands, *more.commands),
            joins=(*self.joins, *more.joins),
            members=self.members or more.members,
        )

    @property
    def name(self) -> str:
        """The name of rulesets and relations; instances of a list rule have different ones."""
        return self.rule.key

    @property
    def shared(self) -> list[str]:
        """The tensors that all members of a group have in common; of another rule all tensors."""
        return [t for t in self.tensors if t not in self.rule.members]

    @property
    def varying(self) -> list[str]:
        """The tensors that each member of a group has."""
        return [t for t in self.tensors if t in self.rule.members]

    @property
    def find(self) -> list[Command]:
        """Fills the match relation with what is new."""
        return [*self.prepare, run_once(ruleset("find", self.name))]

    @property
    def prepare(self) -> list[Command]:
        """Fills the relations of members, if there are any, with what is new."""
        return [run_once(self.members)] if self.members else []

    @property
    def bounded(self) -> bool:
        """Whether the rule has a condition on ``factors``, which bounds the number of its products."""
        return any(fact.function in ("factors", "start") for fact in facts_of(self.rule.conditions))

    @property
    def chained(self) -> bool:
        """Whether the rule may apply to what it makes, once for each time that it is applied: it writes an e-node as
        another one of the same operator."""
        source, target = self.rule.source, self.rule.target
        roots = [n.op for n in target.nodes if n.result in target.outputs]
        own = [n.op for n in source.nodes]
        return own == roots == [n.op for n in target.nodes if n.op in own]

    @property
    def pointless_alone(self) -> bool:
        """Whether a match that is its own mirror image only merges tensors with themselves: the mirror image
        exchanges every output."""
        if self.mirror is None:
            return False
        outputs = map(self.tensors.index, self.rule.source.outputs)
        return all(self.mirror[i] != i for i in outputs)


def ruleset(phase: str, rule: str) -> str:
    """The ruleset of a rule's phase: rule, members, find, find-old or apply."""
    return f"{phase}:{rule}"


def match_relation(rule: str) -> str:
    return f"m:{rule}"


def ok_relation(rule: str) -> str:
    return f"ok:{rule}"


def member_relation(rule: str) -> str:
    return f"g:{rule}"


def old_relation(rule: str) -> str:
    return f"old:{rule}"
