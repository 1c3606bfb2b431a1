"""One measurement of ``tensat-dl bench join``: the e-graph, and the ways to find its multi-pattern matches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any

from tensat_dl.bench.cells import graph_of, rules_of
from tensat_dl.bench.common import Row
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled import CompiledRule, match_relation
from tensat_dl.engine.egglog import Engine
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.naming import NewNode, Store
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.selection import Selection, oldest_first
from tensat_dl.engine.syntax import Command, app, saturate
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.paper.product import Product, SourcePatterns, Substitution, hash_join
from tensat_dl.rewrite.variants import concrete

#: E-nodes that the explorations may have.
NODES = 50_000

#: A match by the e-classes of the tensors that the rule's match relation has columns for.
Match = tuple[int, ...]


def measure(model: str, pack: str, k_multi: int, runs: int, time_limit: float) -> Row:
    """The seconds and the matches of each way to search, in multi-pattern iteration ``k_multi`` (from 1)."""
    graph, ops = graph_of(model)
    rules = rules_of(pack)
    egraph = before_search(graph, ops, rules, k_multi)
    row: Row = {"model": model, "rules": pack, "k_multi": k_multi}
    if egraph is None:
        return {**row, "matches": 0, "nodes": None}
    program = EgglogProgram(ops, rules, graph)
    declared = program.everything()
    multi = [r for r in program.current() if r.rule.kind == "multi"]
    ours = by_join(egraph, program, declared, multi, runs)
    baseline = by_product(egraph, multi, ops, time_limit)
    for rule in multi:
        name = rule.name
        wanted = selected(rule, baseline.joined[name])
        assert ours.found[name] == wanted, f"{name}: the engine's matches and the hash join's differ"
        product, joined = baseline.found[name], baseline.joined[name]
        same = product == joined if baseline.complete[name] else product <= joined
        assert same, f"{name}: the product's matches and the hash join's differ"
    return {
        **row,
        "nodes": egraph.num_nodes,
        "classes": egraph.num_classes,
        "combinations": baseline.total,
        "enumerated": baseline.enumerated,
        "matches": sum(len(m) for m in baseline.joined.values()),
        "explored": ours.explored,
        "seconds": {
            "product": baseline.search + baseline.product,
            "product_estimated": baseline.search + baseline.estimated,
            "hash_join": baseline.search + baseline.hash_join,
            "find": ours.find,
            "read": ours.read,
            "explore": ours.explore,
        },
    }


def before_search(graph: Graph, ops: OpTable, rules: Sequence[RewriteRule], k_multi: int) -> EGraph | None:
    """The e-graph that the multi-pattern rules search in their iteration ``k_multi``; None if there is none."""
    multi = {r.name for r in rules if r.kind == "multi"}
    iterations = searches = 0
    for step in Explorer(graph, ops, tuple(rules), Limits(NODES, k_multi=k_multi)).run():
        searches += any(s.rule in multi for s in step.iteration.rules)
        if searches == k_multi:
            break
        iterations += 1
    else:
        return None
    # Once more, up to that iteration, in which this time the multi-pattern rules are not applied again.
    limits = Limits(NODES, iterations=iterations, k_multi=k_multi - 1)
    *_, last = Explorer(graph, ops, tuple(rules), limits).run()
    return last.egraph


# ---- algorithm 1, and the same with a hash join ---------------------------------------------------------------


@dataclass
class ByProduct:
    """Seconds, and the matches of each rule. ``search`` is for the part that both ways share."""

    search: float = 0.0
    product: float = 0.0
    estimated: float = 0.0  #: seconds that the whole product would take, from the part that was enumerated
    hash_join: float = 0.0
    total: int = 0  #: combinations
    enumerated: float = 1.0  #: share of them that was looked at
    complete: dict[str, bool] = field(default_factory=dict)
    found: dict[str, set[Match]] = field(default_factory=dict)
    joined: dict[str, set[Match]] = field(default_factory=dict)


def by_product(egraph: EGraph, rules: Sequence[CompiledRule], ops: OpTable, time_limit: float) -> ByProduct:
    """Algorithm 1 up to the matches that pass shape checking, and the same with hash joins. Each rule has its share
    of the remaining time."""
    out = ByProduct()
    started = time.perf_counter()
    sources = SourcePatterns([r.rule for r in rules], ops)
    matches = sources.search(egraph)
    lists = {r.name: sources.decanonical(r.rule, matches) for r in rules}
    out.search = time.perf_counter() - started
    left, looked_at = time_limit, 0.0
    for i, rule in enumerate(sorted(rules, key=lambda r: prod(map(len, lists[r.name])))):
        product = Product(lists[rule.name], max(0.0, left / (len(lists) - i)))
        started = time.perf_counter()
        out.found[rule.name] = ShapeCheck(rule, egraph, ops).applicable(product)
        seconds = time.perf_counter() - started
        left -= seconds
        out.product += seconds
        out.estimated += seconds / product.done
        out.complete[rule.name] = product.done == 1.0
        out.total += product.total
        looked_at += product.total * product.done
        started = time.perf_counter()
        out.joined[rule.name] = ShapeCheck(rule, egraph, ops).applicable(hash_join(lists[rule.name]))
        out.hash_join += time.perf_counter() - started
    if not all(out.complete.values()):
        out.enumerated = looked_at / out.total
    return out


class ShapeCheck:
    """Whether a rule's conditions hold and its target type-checks; asked once for equal types and attributes."""

    def __init__(self, rule: CompiledRule, egraph: EGraph, ops: OpTable) -> None:
        self.rule = rule
        self.infer = Inference(ops)
        self.types = [t[0] for t in egraph.types]
        numbers: dict[TensorType, int] = {}
        self.number = [numbers.setdefault(t, len(numbers)) for t in self.types]
        self.variables = rule.rule.tensor_variables()
        self.tensors = {*self.variables, *(n.result for n in rule.rule.source.nodes)}
        self.known: dict[tuple[Any, ...], bool] = {}

    def applicable(self, matches: Iterable[Substitution]) -> set[Match]:
        """The matches that may be applied."""
        out = set()
        attrs: list[str] | None = None
        for m in matches:
            if attrs is None:
                attrs = [name for name in m if name not in self.tensors]
            key = (*[self.number[m[v]] for v in self.variables], *[m[a] for a in attrs])
            held = self.known.get(key)
            if held is None:
                held = self.known[key] = self._holds(m, attrs)
            if held:
                out.add(tuple([m[t] for t in self.rule.tensors]))
        return out

    def _holds(self, match: Substitution, attrs: Sequence[str]) -> bool:
        types = {name: self.types[c] for name, c in match.items() if name in self.tensors}
        env = {name: match[name] for name in attrs}
        return concrete(self.rule.rule, self.infer, types, env, _no_facts) is not None


def _no_facts(function: str, tensor: str) -> Any:
    raise NotImplementedError(f"{function}({tensor}) in a multi-pattern rule")


# ---- ours -----------------------------------------------------------------------------------------------------


@dataclass
class ByJoin:
    """Median seconds of the engine alone, of the engine with its matches read and sorted, and of exploration, which
    reads no more matches than it may apply; and the matches by rule."""

    find: float
    read: float
    explore: float
    found: dict[str, set[Match]]
    explored: int  #: matches that exploration looks at


def by_join(
    egraph: EGraph,
    program: EgglogProgram,
    declared: Sequence[Command],
    rules: Sequence[CompiledRule],
    runs: int,
) -> ByJoin:
    """The rules' joins on an engine that holds the e-graph and has not matched anything before. ``declared`` are the
    commands for the program's rules."""
    engine = Engine()
    store = Store(engine, program)
    engine.run(*declared)
    load(egraph, store)
    find, read, explore = [], [], []
    found: dict[str, set[Match]] = {}
    explored: dict[str, set[Match]] = {}
    for _ in range(runs):
        engine.run(app("push"))
        started = time.perf_counter()
        for rule in rules:
            engine.run(*rule.find)
        find.append(time.perf_counter() - started)
        found = _read(store, rules)
        read.append(time.perf_counter() - started)
        engine.run(app("pop"), app("push"))
        handles = store.handles(engine.freeze())  # an exploration has them
        started = time.perf_counter()
        Selection(store, Limits(NODES), None).find(rules, handles)
        explored = _read(store, rules)
        explore.append(time.perf_counter() - started)
        engine.run(app("pop"))
    engine.close()
    assert all(explored[name] <= found[name] for name in found)
    return ByJoin(median(find), median(read), median(explore), found, sum(map(len, explored.values())))


def _read(store: Store, rules: Sequence[CompiledRule]) -> dict[str, set[Match]]:
    """The matches that would be applied, by the handles of their tensors, put in the order of application."""
    frozen = store.engine.freeze()
    handles = store.handles(frozen)
    found = {}
    for rule in rules:
        rows = frozen.rows(match_relation(rule.name))
        found[rule.name] = selected(rule, {tuple([handles[t] for t in row.inputs]) for row in rows})
        oldest_first(found[rule.name])
    return found


def selected(rule: CompiledRule, matches: set[Match]) -> set[Match]:
    """The first match of each pair of mirror images."""
    if rule.mirror is None:
        return matches
    images = {k: tuple([k[i] for i in rule.mirror]) for k in matches}
    return {k for k, image in images.items() if k <= image or image not in images}


def load(egraph: EGraph, store: Store) -> None:
    """Loads an e-graph so that the handle of every e-class is its number."""
    names = _well_founded(egraph)
    store.next_handle = egraph.num_classes
    store.load_types([(c, t[0]) for c, t in enumerate(egraph.types) if len(t) == 1])
    nodes: list[NewNode] = []
    equal: list[tuple[int, int]] = []
    for n, c in enumerate(egraph.node_class.tolist()):
        handle = c if names[c] == n else store.fresh()
        if handle != c:
            equal.append((handle, c))
        nodes.append((handle, egraph.op[n], egraph.attrs[n], tuple(egraph.children_of(n)), egraph.origin[n]))
    store.load_nodes(nodes, run=False)
    store.engine.load("in_equal", equal)
    store.engine.run(saturate("load", "types"))


def _well_founded(egraph: EGraph) -> list[int]:
    """For every e-class an e-node that names it; together these e-nodes have no cycle."""
    chosen = [-1] * egraph.num_classes
    waiting = list(range(egraph.num_nodes))
    while waiting:
        later = []
        for n in waiting:
            c = int(egraph.node_class[n])
            if chosen[c] >= 0:
                continue
            if all(chosen[k] >= 0 for k in egraph.children_of(n)):
                chosen[c] = n
            else:
                later.append(n)
        if len(later) == len(waiting):
            break
        waiting = later
    assert min(chosen) >= 0, "an e-class cannot be computed"
    return chosen
