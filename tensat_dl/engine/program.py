"""The egglog program of a run, without the facts of its graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tensat_dl.core.expression import facts_of
from tensat_dl.core.graph import Attrs, Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile import built_forms, compile_rule, egglog_name, variants_of
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.declarations import (
    FACTORS,
    HEADER,
    VARYING,
    WIDE,
    constructor_commands,
    factors_commands,
    list_loader,
    node_term,
    pattern_of,
    type_rules,
    varying_commands,
)
from tensat_dl.engine.members import MemberTables
from tensat_dl.engine.precount import Nodes, Outline, by_operator
from tensat_dl.engine.schema import Constructor, Schema
from tensat_dl.engine.syntax import (
    App,
    Command,
    Lit,
    app,
    by_id,
    comment,
)
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.groups import lengths, listed, one_member
from tensat_dl.rewrite.reachable import reachable
from tensat_dl.rewrite.source import MAX_RANK, Form, Forms, Variant, form_of, forms_in, in_both_orders


def ranks_of(graph: Graph, ops: OpTable) -> set[int]:
    """The ranks of a graph's tensors, and the lengths of lists in attributes, which mostly are ranks too."""
    ranks = {len(t.shape) for n in graph.nodes for t in n.types}
    lists = {(d.name, a.name) for d in ops.values() for a in d.attrs if a.listed}
    return ranks | {
        len(v) for n in graph.nodes for a, v in n.attrs if isinstance(v, tuple) and (n.op, a) in lists
    }


@dataclass
class _Growing:
    """The variants of a rule, or of the types of a constructor, for the forms of e-nodes that were known at last."""

    version: object = None  #: of those forms
    seen: set[int] = field(default_factory=set)  #: the ids of the variants that are known
    variants: list[Variant] = field(default_factory=list)  #: those under which the rule may apply, by number
    told: set[int] = field(default_factory=set)  #: the variants whose targets are among the known forms

    def add(self, found: Iterable[Variant]) -> list[Variant]:
        """The variants that are new, without those under which the rule never applies."""
        new = [v for v in found if id(v) not in self.seen]
        self.seen.update(map(id, new))
        usable = [v for v in new if not v.ill_typed]
        self.variants += usable
        return usable


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
        self._lists = {r.name for r in self._with_lists}
        self._listed: dict[tuple[str, int], RewriteRule] = {}  #: instances of those
        self._outlines: dict[str, Outline] = {}  #: by rule
        self._met: set[str] = set()  #: rules that e-nodes may match, by their patterns
        #: In order; those that take lists for each length that e-nodes have.
        self.rules = [r for r in rules if not r.takes_lists]
        self._growing: dict[str, _Growing] = {}  #: by rule
        #: By rule, and whether its matches are filtered: what is compiled, and of how many variants.
        self._compiled: dict[tuple[str, bool], tuple[CompiledRule, int]] = {}
        self._selecting: set[str] = set()  #: rules of which selected matches can be applied
        self._members: dict[str, _Growing] = {}  #: what group rules build
        self._tables: MemberTables = {}
        self._types: dict[str, tuple[RewriteRule, _Growing]] = {}  #: of constructors
        asking = reachable(rules, {n.op for n in graph.nodes})
        functions = {fact.function for r in asking for fact in facts_of(r.conditions)}
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
        known = self.forms.known or {}
        new = [f for f in in_both_orders(forms, self.schema.ops) if f not in known.get(f.op, ())]
        self.forms = self.forms.and_more(new, ranks)
        few = [f for f in new if max(f.ranks, default=0) <= MAX_RANK]
        self._matched = self._matched.and_more(few, (r for r in self.forms.ranks if r <= MAX_RANK))

    def _version(self, ops: Iterable[str]) -> object:
        """Different for different forms of these operators; None if one of them has no e-node."""
        assert self._matched.known is not None
        counts = [len(self._matched.known.get(op, ())) for op in ops]
        return (self._matched.ranks, *counts) if all(counts) else None

    # ---- rules -------------------------------------------------------------------------------------------

    def _variants(self, rule: RewriteRule) -> list[Variant]:
        """The variants of a rule for the known forms."""
        state = self._growing.setdefault(rule.key, _Growing())
        version = self._version(n.op for n in rule.source.nodes)
        if version != state.version:
            state.version = version
            state.add(variants_of(rule, self.schema, self._matched))
        return state.variants

    def may_match(self, rule: RewriteRule, nodes: Nodes) -> bool:
        """Whether e-nodes can match a rule: these, or earlier ones, and of the known forms. A rule that can't is not
        looked at any further, which most can't."""
        return self._meets(rule, nodes) and bool(self._variants(rule))

    def _meets(self, rule: RewriteRule, nodes: Nodes) -> bool:
        """Whether e-nodes may match the patterns of a rule: these, or earlier ones."""
        if rule.key in self._met:
            return True
        outline = self._outlines.get(rule.key)
        if outline is None:
            ops = self.schema.ops
            commuting = frozenset(n.result for n in rule.source.nodes if ops[n.op].commutative)
            outline = self._outlines[rule.key] = Outline.of(rule, commuting)
        if outline.may_match(nodes):
            self._met.add(rule.key)
        return rule.key in self._met

    def compiled(
        self, rule: RewriteRule, filtered: bool | None = None
    ) -> tuple[CompiledRule | None, list[Command]]:
        """A rule compiled for the known forms, None if no e-node of these can match; and the commands that declare
        what is new of it."""
        key = rule.key, self._filtered if filtered is None else filtered
        variants = self._variants(rule)
        known, first = self._compiled.get(key, (None, 0))
        if len(variants) == first:
            return known, []
        more = compile_rule(rule, self.schema, variants[first:], self._tables, first=first, filtered=key[1])
        assert more is not None, "a rule applies under its variants"
        commands = self.new_constructors()
        if known is None:
            commands += [comment(f"---- rule {more.name}\n{rule.doc}")] if rule.doc else []
            known = more
        else:
            known = known.with_variants(more)
        self._compiled[key] = known, len(variants)
        return known, [*commands, *more.commands]

    def selecting(self, rule: CompiledRule) -> Sequence[Command]:
        """The commands that declare what is still needed to apply selected matches of a rule."""
        if rule.name in self._selecting:
            return ()
        self._selecting.add(rule.name)
        return rule.selecting

    def built(self, rule: RewriteRule, matched: Collection[str] | None = None) -> list[Command]:
        """Takes note of the e-nodes that a rule may build; the commands that declare what is new of their types.
        ``matched`` names the egglog rules of a single-pattern rule that had matches; None for all."""
        state, one = self._growing[rule.key], rule
        if rule.kind == "group":
            state, one = self._members.setdefault(rule.key, _Growing()), one_member(rule)
            state.add(self.schema.variants(one, self._matched))
        new = [i for i in range(len(state.variants)) if i not in state.told]
        if matched is not None:
            new = [i for i in new if egglog_name(one, i) in matched]
        if new:
            state.told.update(new)
            variants = [state.variants[i] for i in new]
            self._add_forms(built_forms(one, self.schema.ops, variants, of_many=rule.kind == "group"))
        return self.new_types()

    def loaded(self, nodes: Iterable[tuple[str, Sequence[int], int, Attrs]]) -> None:
        """Takes note of e-nodes that are loaded, by operator, ranks of operands, rank of the result, and
        attributes."""
        ops = self.schema.ops
        self._add_forms(
            form_of(ops[op], operands, result, dict(attrs)) for op, operands, result, attrs in nodes
        )

    def current(self) -> list[CompiledRule]:
        """The rules that are compiled, in order."""
        found = (self._compiled.get((r.key, self._filtered)) for r in self.rules)
        return [compiled for compiled, _ in filter(None, found)]

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
            if one.key not in self._met and self._meets(one, nodes):
                new.append(one)
        self.rules.extend(new)
        self.rules.sort(key=lambda r: (self._place[r.name], r.count or 0))
        return bool(new)

    def forget(self) -> None:
        """Leaves rules out until e-nodes may match them again, and the instances of list rules out of `rules`: an
        e-graph does not depend on what was explored before."""
        self.rules = [r for r in self.rules if r.name not in self._lists]
        self._met.clear()

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
            app("union", own, node),
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
                self._types[c.name] = pattern_of(c, ops), _Growing()
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
            first = len(state.variants)
            new = state.add(self.schema.variants(pattern, self.forms))
            (node,) = pattern.source.nodes
            constructor = self.schema.constructor(node.op, len(node.args))
            out += type_rules(constructor, self.schema.ops, new, first)
        return out

    def new_list_length(self, length: int) -> list[Command]:
        """The loader of lists of a length, if it is not declared yet."""
        if length in self._lengths:
            return []
        self._lengths.add(length)
        return list_loader(length)
