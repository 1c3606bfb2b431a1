"""An e-graph in plain Python to compare the engine with: slow, and simple enough to be believed.

Rules are matched by trying every e-node for every node of the pattern. Whether a match is applied is decided by
the concrete evaluator alone, once all types and attributes are known: no ranks, no guards, no symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.expression import base_of, facts_of, member
from tensat_dl.core.graph import Attrs, Graph, TensorType
from tensat_dl.core.rule import PatternNode, RewriteRule, Variable
from tensat_dl.ops.attributes import attributes, defaults
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.rewrite.groups import listed
from tensat_dl.rewrite.orders import either_order

Key = tuple[str, Attrs, tuple[int, ...]]

#: A match: e-classes of the source's tensors, values of its attribute variables.
Match = tuple[dict[str, int], dict[str, Any]]

#: Comparisons of known values.
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Reference:
    """E-classes are numbers; `nodes` says for every e-node in which e-class it is."""

    def __init__(self, graph: Graph, ops: OpTable) -> None:
        self.ops = ops
        self.parent: list[int] = []
        self.types: list[TensorType] = []
        self.nodes: dict[Key, int] = {}
        self.of_source: list[int] = []
        self.endless = set[str]()  #: rules that are applied once in each round
        for node in graph.nodes:
            kids = tuple(self.of_source[i] for i in node.inputs)
            self.of_source.append(self.add(node.op, node.attrs, kids, node.type))
        known = graph.weights_only()
        self.marked = [
            c for i, c in enumerate(self.of_source) if not known[i] and graph.nodes[i].op != "matmul"
        ]

    def find(self, c: int) -> int:
        while self.parent[c] != c:
            c = self.parent[c]
        return c

    def add(self, op: str, attrs: Attrs, children: Sequence[int], type_: TensorType) -> int:
        key = (op, attrs, tuple(map(self.find, children)))
        if key not in self.nodes:
            self.nodes[key] = len(self.parent)
            self.parent.append(len(self.parent))
            self.types.append(type_)
        return self.find(self.nodes[key])

    def union(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        assert self.types[a] == self.types[b], "two e-classes of different types are united"
        self.parent[max(a, b)] = min(a, b)

    def rebuild(self) -> None:
        """Congruence: equal operators of equal operands are equal, for commutative operators in either order."""
        while True:
            known: dict[Key, int] = {}
            united = False
            for (op, attrs, children), c in self.nodes.items():
                key = (op, attrs, tuple(map(self.find, children)))
                self.union(c, known.setdefault(key, c))
                other = (op, attrs, key[2][::-1])
                if self.ops[op].commutative and other in known:
                    united |= self.find(c) != self.find(known[other])
                    self.union(c, known[other])
            if known.keys() == self.nodes.keys() and not united:
                break
            self.nodes = known
        self.nodes = {k: self.find(c) for k, c in self.nodes.items()}

    def weights(self) -> set[int]:
        """E-classes that are computed from weights alone."""
        known: set[int] = set()
        while True:
            more = {
                c
                for (op, _, children), c in self.nodes.items()
                if op != "input" and not self.ops[op].opaque and known.issuperset(children)
            }
            if more <= known:
                return known
            known |= more

    def varying(self) -> set[int]:
        """E-classes one way to compute which needs an input."""
        known: set[int] = set()
        while True:
            more = {
                c
                for (op, _, children), c in self.nodes.items()
                if op == "input" or self.ops[op].opaque or not known.isdisjoint(children)
            }
            if more <= known:
                return known
            known |= more

    def values(self) -> dict[int, float]:
        """The values of constants, by e-class."""
        return {c: dict(attrs)["value"] for (op, attrs, _), c in self.nodes.items() if op == "fill"}  # type: ignore[misc]

    def starts(self) -> set[int]:
        """E-classes at which chains of products start: what the input graph does not compute by products."""
        return {self.find(c) for c in self.marked}

    def factors(self) -> dict[int, int]:
        """The least number of factors of each e-class's products."""
        found = dict.fromkeys(self.starts(), 1)
        while True:
            before = dict(found)
            for (op, attrs, children), c in self.nodes.items():
                kids = [found.get(self.find(k), 10**6) for k in children]
                count = 1
                if op == "matmul" and len(kids) == 2 and dict(attrs)["act"] == "none":
                    count = sum(kids)
                elif op == "smul" or self.ops[op].view:
                    count = kids[0]
                elif op == "concat":
                    count = 1000
                c = self.find(c)
                found[c] = min(found.get(c, 10**6), count)
            if found == before:
                return found

    # ---- matching ----------------------------------------------------------------------------------------

    def matches(self, rule: RewriteRule) -> Iterator[Match]:
        """Every match of a rule that may be applied."""
        weights, varying = self.weights(), self.varying()
        values, starts, factors = self.values(), self.starts(), self.factors()
        for tensors, variables in self.sources(rule):
            env = self._env(tensors, variables)

            for name, c in tensors.items():
                env[f"factors of {name}"] = factors[self.find(c)]

            def holds(c: ex.Expr, tensors: Mapping[str, int] = tensors, env: dict[str, Any] = env) -> bool:
                match c:
                    case ex.Fact("weight"):
                        return tensors[c.name] in weights
                    case ex.Fact("varying"):
                        return tensors[c.name] in varying
                    case ex.Fact("start", ex.Name(x)):
                        return tensors[x] in starts
                    case ex.Binary("==", ex.Fact("value", ex.Name(x)), number):
                        return values.get(tensors[x]) == evaluate(number, env)
                    case ex.Binary("!=", ex.Fact("value", ex.Name(x)), number):
                        return tensors[x] in values and values[tensors[x]] != evaluate(number, env)
                    case ex.Binary(("<" | "<=" | ">" | ">=") as sign, ex.Fact("value", ex.Name(x)), number):
                        return tensors[x] in values and ORDERS[sign](
                            values[tensors[x]], evaluate(number, env)
                        )
                try:
                    return evaluate(named(c), env) is True
                except EvaluationError:
                    return False

            if all(self._demands(n, tensors, variables) for n in rule.source.nodes) and all(
                map(holds, rule.conditions)
            ):
                yield tensors, variables

    def sources(self, rule: RewriteRule) -> Iterator[Match]:
        """Every match of a rule's source, whatever its conditions say."""
        either = either_order(rule, self.ops)
        return self._search(tuple(reversed(rule.source.nodes)), either, {}, {})

    def _search(
        self,
        pattern: Sequence[PatternNode],
        either: frozenset[str],
        tensors: dict[str, int],
        variables: dict[str, Any],
    ) -> Iterator[Match]:
        if not pattern:
            yield tensors, variables
            return
        node, rest = pattern[0], pattern[1:]
        nodes = list(self.nodes.items())
        if node.result in either:
            nodes += [((op, attrs, children[::-1]), c) for (op, attrs, children), c in nodes if op == node.op]
        for (op, attrs, children), c in nodes:
            if op != node.op or len(children) != len(node.args):
                continue
            found = dict(tensors)
            names = [(node.result, c), *zip(node.args, children, strict=True)]
            if not all(found.setdefault(name, d) == d for name, d in names):
                continue
            bound = dict(variables)
            if all(
                bound.setdefault(name, value) == value for name, value in self._bindings(node, dict(attrs))
            ):
                yield from self._search(
                    rest, either, found, {**bound, f"attributes of {node.result}": dict(attrs)}
                )

    def _bindings(self, node: PatternNode, actual: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Attribute variables of a pattern node, and the values that they get."""
        decl = self.ops[node.op]
        for keyword in node.attrs:
            a = decl.attr(keyword.name)
            assert a is not None
            value, expr = actual[a.name], keyword.value
            if isinstance(expr, ex.Index) and isinstance(keyword.pattern, Variable):  # an element of a list
                yield keyword.pattern.name, value
            if isinstance(expr, ex.ListExpr) and isinstance(expr.items, tuple) and a.length:
                pairs = list(zip(expr.items, value, strict=True))
            else:
                pairs = [(expr, value)]
            for e, v in pairs:
                if isinstance(e, ex.Name) and e.id not in a.choices and decl.preset(a.name, e.id) is None:
                    yield e.id, v

    def _demands(self, node: PatternNode, tensors: Mapping[str, int], variables: Mapping[str, Any]) -> bool:
        """Whether a matched e-node has exactly the attributes that its pattern asks for."""
        decl = self.ops[node.op]
        inputs = [self.types[tensors[a]] for a in node.args]
        env = self._env(tensors, variables)
        try:
            wanted = {**defaults(decl), **attributes(decl, node.attrs, env, inputs)}
        except EvaluationError:
            return False
        actual: dict[str, Any] = variables[f"attributes of {node.result}"]
        return wanted == actual

    # ---- applying ----------------------------------------------------------------------------------------

    def apply(self, rule: RewriteRule, match: Match) -> bool:
        """Builds the target of a match and unites the outputs; False if the target does not type-check."""
        tensors, variables = match
        env = self._env(tensors, variables)
        local: dict[str, int] = {}
        types: dict[str, TensorType] = {}
        plan: list[tuple[str, str, Attrs, tuple[str, ...], TensorType]] = []
        lets = list(rule.target.lets)
        try:
            for node in rule.target.nodes:
                for name, expr in list(lets):
                    try:
                        env[name] = evaluate(expr, env)
                    except TsrError:  # it names what is not built yet
                        continue
                    lets.remove((name, expr))
                decl = self.ops[node.op]
                inputs = [types.get(a) or self.types[tensors[a]] for a in node.args]
                attrs = attributes(decl, node.attrs, env, inputs)
                (type_,) = infer(self.ops, node.op, inputs, attrs).concrete()
                types[node.result] = type_
                env.setdefault(node.result, type_)
                ordered = tuple((a.name, attrs[a.name]) for a in decl.attrs)
                plan.append((node.result, node.op, ordered, node.args, type_))
        except (IllTyped, EvaluationError):
            return False
        for source, target in zip(rule.source.outputs, rule.target.outputs, strict=True):
            if (types.get(target) or self.types[tensors[target]]) != self.types[tensors[source]]:
                return False
        for result, op, attrs_, args, type_ in plan:
            children = [local[a] if a in local else tensors[a] for a in args]
            local[result] = self.add(op, attrs_, children, type_)
        for source, target in zip(rule.source.outputs, rule.target.outputs, strict=True):
            self.union(tensors[source], local[target] if target in local else tensors[target])
        return True

    def _env(self, tensors: Mapping[str, int], variables: Mapping[str, Any]) -> dict[str, Any]:
        """The types of tensors and the values of variables by name, and those of elements by the list's name."""
        env: dict[str, Any] = {**{n: self.types[c] for n, c in tensors.items()}, **variables}
        for base in {base_of(n) for n in env} - env.keys():
            env[base] = tuple(env[member(base, k)] for k in range(sum(base_of(n) == base for n in env)))
        return env

    def step(self, rule: RewriteRule) -> int:
        """Applies a rule to every match there is now; the number of matches that were applied."""
        longest = max(len(children) for _, _, children in self.nodes)
        rules = [listed(rule, n) for n in range(1, longest + 1)] if rule.takes_lists else [rule]
        applied = sum([self.apply(one, m) for one, m in [(r, m) for r in rules for m in self.matches(r)]])
        self.rebuild()
        return applied

    def round(self, rule: RewriteRule, most: int) -> int:
        """What an iteration does: a rule that counts factors is applied until that changes nothing; so is one that
        writes an e-node as another one of the same operator, until it has made so many steps in an iteration."""
        bounded = any(fact.function in ("factors", "start") for fact in facts_of(rule.conditions))
        roots = [n.op for n in rule.target.nodes if n.result in rule.target.outputs]
        again = [n.op for n in rule.target.nodes if n.op in roots]
        chained = [n.op for n in rule.source.nodes] == roots == again
        applied, steps, size = 0, 0, -1
        while size != len(self.nodes):
            size, steps = len(self.nodes), steps + 1
            applied += self.step(rule)
            if steps == most and size != len(self.nodes):
                self.endless.add(rule.key)
            if not (bounded or (chained and rule.key not in self.endless)):
                break
        return applied


def named(expr: ex.Expr) -> ex.Expr:
    """``factors(x)`` as a name."""
    match expr:
        case ex.Fact("factors", ex.Name(x)):
            return ex.Name(f"factors of {x}", span=expr.span)
        case ex.Binary(left=left, right=right):
            return replace(expr, left=named(left), right=named(right))
    return expr


def counterparts(egraph: EGraph, reference: Reference) -> tuple[list[str], dict[int, int]]:
    """E-nodes of an e-graph that the reference does not have, as text; and the reference's e-class of each
    e-class."""
    found: dict[int, int] = {}
    missing: list[str] = []
    waiting = list(range(egraph.num_nodes))
    while waiting:
        later = []
        for n in waiting:
            children = egraph.children_of(n)
            if any(c not in found for c in children):
                later.append(n)
                continue
            c = int(egraph.node_class[n])
            key = (egraph.op[n], egraph.attrs[n], tuple(found[k] for k in children))
            its = reference.nodes.get(key)
            if its is None or found.setdefault(c, its) != its:
                what = "does not exist" if its is None else "is in another e-class"
                missing.append(f"{key} of rule {egraph.origin[n]!r} {what}")
        if len(later) == len(waiting):
            break
        waiting = later
    return missing, found
