"""Random instances of rewrite rules: concrete types, attributes and values under which a rule applies.

An instance is grown along the source pattern: the operands of one operator are redrawn until it is
well-typed, then the next operator follows. Dimensions come from a small pool that holds 1, so that
broadcasting, grouped and depth-wise convolutions and windows that just fit all come up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tensat_dl import resources
from tensat_dl.ir.rule import PatternNode, RewriteRule, Side
from tensat_dl.ir.types import TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.program import Program, load_program
from tensat_dl.lang.walk import calls_of, names_of
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.semantics import SEMANTICS, Array
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.ops.typing import IllTyped, attributes, infer

#: Operators that are exact on integers. A rule of these alone is compared exactly.
EXACT = frozenset(
    {"matmul", "conv2d", "ewadd", "ewsub", "ewmul", "smul", "relu", "poolmax", "eye", "conv_identity"}
    | {"transpose", "reshape", "concat", "slice", "enlarge", "merge", "dropout"}
)
#: Operators that are defined on integers, but round. A rule may be true of floats and false of integers.
ROUNDING = frozenset(("poolavg", "ewdiv", "fill", "conv_average", "reduce_mean"))
#: Operators that need positive operands.
POSITIVE = frozenset(("sqrt", "rsqrt", "ewdiv", "batchnorm"))

#: What attributes that are pairs or quadruples are drawn from.
_SMALL = {"stride": (1, 1, 2, 3), "dilation": (1, 1, 2), "kernel": (1, 2, 3, 3, 5), "pads": (0, 0, 1, 1, 2)}

Env = dict[str, Any]
Attrs = Mapping[str, Any]


class NoInstance(Exception):
    """This draw does not meet the rule's conditions."""


@cache
def library() -> Program:
    """Every rule of every pack."""
    packs = sorted(p.stem for p in resources.rules().glob("*.tsr"))
    packs = [p for p in packs if p not in ("ops", "standard")]
    return load_program(str(resources.rules() / "standard.tsr"), tuple(packs))


@dataclass(frozen=True)
class Application:
    """One operator of an instance. Names of a group's members carry their number: ``w.0``."""

    result: str
    op: str
    args: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Instance:
    """A rule on concrete types. ``constants`` are variables of which the rule knows the value."""

    variables: Mapping[str, TensorType]
    types: Mapping[str, TensorType]  #: of the variables and of every result of the source
    constants: Mapping[str, float]
    source: tuple[Application, ...]
    target: tuple[Application, ...]
    outputs: tuple[tuple[str, str], ...]
    exact: bool
    positive: bool

    def __str__(self) -> str:
        lines = [f"{name}: {t}" for name, t in self.variables.items()]
        lines += [f"{name} = {value}" for name, value in self.constants.items()]
        for side, title in ((self.source, "source"), (self.target, "target")):
            lines.append(f"{title}:")
            lines += [f"  {a.result} = {a.op}({', '.join(a.args)}; {dict(a.attrs)})" for a in side]
        return "\n".join(lines)


def evaluate_instance(instance: Instance, seed: int) -> Iterator[tuple[Array, Array]]:
    """The matched outputs' values on the source's and on the target's side."""
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for name, t in instance.variables.items():
        if name in instance.constants:
            value = instance.constants[name]
            values[name] = np.full(t.shape, value, np.int64 if instance.exact else np.float64)
        elif instance.exact:
            values[name] = rng.integers(1 if instance.positive else -9, 10, t.shape)
        else:
            values[name] = rng.uniform(0.5, 2, t.shape) if instance.positive else rng.normal(size=t.shape)
    sides = []
    for side in (instance.source, instance.target):
        here = dict(values)
        for a in side:
            result = SEMANTICS[a.op]([here[x] for x in a.args], dict(a.attrs))
            here[a.result] = result.astype(np.int64) if instance.exact else result
        sides.append(here)
    for left, right in instance.outputs:
        yield sides[0][left], sides[1][right]


def agree(instance: Instance, seed: int) -> bool:
    """Whether source and target compute the same, exactly where the operators are exact."""
    for left, right in evaluate_instance(instance, seed):
        if left.shape != right.shape:
            return False
        same = np.array_equal(left, right) if instance.exact else np.allclose(left, right, 1e-9, 1e-9)
        if not same:
            return False
    return True


def instances(rule: RewriteRule, ops: OpTable, seed: int, count: int, tries: int) -> list[Instance]:
    """Up to ``count`` instances of a rule, found in at most ``tries`` draws."""
    rng = random.Random(f"{rule.name} {seed}")
    found: list[Instance] = []
    for _ in range(tries):
        try:
            found.append(_Draw(rule, ops, rng).instance())
        except (NoInstance, IllTyped, EvaluationError):
            continue
        if len(found) == count:
            break
    return found


class _Draw:
    """One attempt at an instance."""

    def __init__(self, rule: RewriteRule, ops: OpTable, rng: random.Random) -> None:
        self.rule, self.ops, self.rng = rule, ops, rng
        self.conditions = rule.conditions
        self.members = rng.choice((2, 2, 3))
        self.pool = rng.choice(((1, 2, 4), (1, 2, 3), (2, 4), (1, 3, 4), (2, 3), (1, 2, 3, 4, 6), (2, 4, 6)))
        self.rank = rng.choice((1, 2, 2, 3, 4))
        self.dtype = rng.choice(("f32", "f32", "f32", "i32"))
        self.env: Env = {}  #: what attributes and conditions see: the source's names, then intermediates
        self.made: Env = {}  #: results of the target, which may have names of the source
        self.variables: dict[str, TensorType] = {}
        self.constants = {name: value for name, value in map(_constant, self.conditions) if name}

    def instance(self) -> Instance:
        source = self._side(self.rule.source, draw=True)
        for condition in self.conditions:
            self._require(condition)
        outputs_before = {name: self.env[name] for name in self.rule.source.outputs}
        types = dict(self.variables)
        for node in self.rule.source.nodes:
            types |= zip(self._names(node.result), _flat(self.env[node.result]), strict=True)
        target = self._side(self.rule.target, draw=False)
        outputs = []
        for left, right in zip(self.rule.source.outputs, self.rule.target.outputs, strict=True):
            for a, b in zip(self._names(left), self._names(right), strict=True):
                outputs.append((a, b))
            if _flat(self.made.get(right, self.env.get(right))) != _flat(outputs_before[left]):
                raise NoInstance
        ops = {a.op for a in (*source, *target)}
        acts = {v for a in (*source, *target) for k, v in a.attrs if k == "act"}
        integer = self.dtype == "i32" and bool(self.variables)
        if integer and not (ops <= EXACT | ROUNDING and acts <= {"none", "relu"}):
            raise NoInstance
        return Instance(
            self.variables,
            types,
            self.constants,
            source,
            target,
            tuple(outputs),
            integer or (ops <= EXACT and acts <= {"none", "relu"}),
            bool(ops & POSITIVE),
        )

    def _names(self, name: str) -> list[str]:
        if name in self.rule.members:
            return [f"{name}.{i}" for i in range(self.members)]
        return [name]

    def _require(self, condition: ast.Expr) -> None:
        # What an e-graph knows bounds growth and tells what is computed ahead of time: equations hold without it.
        asked = {call.fn for call in calls_of(condition)}
        if _constant(condition)[0] or asked & {"weight", "factors", "start"}:
            return
        index = self.rule.index
        varies = index is not None and any(n.id == index for n in names_of(condition))
        for i in range(self.members) if varies else (0,):
            env = {**self.env, index: i} if index else dict(self.env)
            if evaluate(condition, env) is not True:
                raise NoInstance

    def _side(self, side: Side, *, draw: bool) -> tuple[Application, ...]:
        made: list[Application] = []
        ready = set(self.env)
        lets = list(side.lets)

        def define() -> None:
            """Lets whose names are all known."""
            known = {**self.made, **self.env}
            for name, expr in list(lets):
                if all(n.id in known or n.id == self.rule.index for n in names_of(expr)):
                    self.env[name] = known[name] = evaluate(expr, dict(known))
                    lets.remove((name, expr))

        define()
        for node in _ordered(side.nodes, ready):
            many = node.each is not None
            for i in range(self.members) if many else (0,):
                made.append(self._apply(node, i if many else None, draw))
            define()
        return tuple(made)

    def _apply(self, node: PatternNode, i: int | None, draw: bool) -> Application:
        free = [a for a in node.args if draw and self._lookup(a, i) is None]
        shared = [a for a in free if a not in self.rule.members]
        for attempt in range(40):
            env: Env = {**self.made, **self.env}
            if self.rule.index is not None and i is not None:
                env[self.rule.index] = i
            try:
                for name in free:
                    self._set(name, i, self._type(node, name), self.env)
                    env[name] = self.env[name]
                names = [n for a in node.args for n in self._argument(a, i)]
                types = [t for a in node.args for t in self._types(a, i)]
                attrs = self._attributes(node, types, env, draw)
                (t,) = infer(self.ops, node.op, types, attrs).concrete()
            except (IllTyped, EvaluationError, IndexError):
                for name in free:
                    self._unset(name, i)
                if attempt == 39 or not draw:
                    raise NoInstance from None
                continue
            if draw:
                self._keep(node, env)
            self._set(node.result, i, t, self.env if draw else self.made)
            for name in free:
                self.variables[name if name in shared or i is None else f"{name}.{i}"] = self._lookup(name, i)
            result = node.result if i is None else f"{node.result}.{i}"
            return Application(result, node.op, tuple(names), tuple(sorted(attrs.items())))
        raise NoInstance

    # ---- names: a member's name stands for a list of types ------------------------------------------------

    def _lookup(self, name: str, i: int | None) -> Any:
        value = self.made.get(name, self.env.get(name))
        if isinstance(value, tuple) and name in self.rule.members and i is not None:
            return value[i] if i < len(value) else None
        return value

    def _set(self, name: str, i: int | None, t: TensorType, env: Env) -> None:
        if name in self.rule.members and i is not None:
            env[name] = (*env.get(name, ())[:i], t)
        else:
            env[name] = t

    def _unset(self, name: str, i: int | None) -> None:
        if name in self.rule.members and i:
            self.env[name] = self.env[name][:i]
        else:
            self.env.pop(name, None)

    def _argument(self, name: str, i: int | None) -> list[str]:
        if name.endswith("[..]"):
            return [f"{name.removesuffix('[..]')}.{j}" for j in range(self.members)]
        return [f"{name}.{i}" if name in self.rule.members else name]

    def _types(self, name: str, i: int | None) -> list[TensorType]:
        if name.endswith("[..]"):
            name = name.removesuffix("[..]")
            return list(self.made.get(name) or self.env[name])
        return [self._lookup(name, i)]

    # ---- draws -------------------------------------------------------------------------------------------

    def _type(self, node: PatternNode, name: str) -> TensorType:
        rng = self.rng
        known = list(self.variables.values())
        if known and rng.random() < 0.4:
            same = rng.choice(known)
            if rng.random() < 0.6:
                return same
            shape = list(same.shape)
            if shape:
                shape[rng.randrange(len(shape))] = rng.choice(self.pool)
            return TensorType(self.dtype, tuple(shape))
        position = node.args.index(name)
        rank = self.rank if rng.random() < 0.85 else rng.choice((0, 1, 2, 3, 4))
        if node.op in ("conv2d", "poolmax", "poolavg", "enlarge", "merge"):
            rank = 4 if position < 2 else 1
        elif node.op == "matmul":
            rank = max(2, self.rank) if position < 2 else 1
        elif node.op == "batchnorm" and position > 0:
            rank = 1
        elif node.op == "smul" and position == 1:
            rank = 0
        shape = [rng.choice(self.pool) for _ in range(rank)]
        if node.op in ("conv2d", "poolmax", "poolavg") and position == 0:
            shape[2:] = [rng.choice((1, 2, 3, 4, 5, 6, 7)) for _ in shape[2:]]
            shape[0] = rng.choice((1, 1, 2))
        if node.op == "conv2d" and position == 1:
            shape[2:] = [rng.choice((1, 1, 2, 3, 5)) for _ in shape[2:]]
        return TensorType(self.dtype, tuple(shape))

    def _attributes(self, node: PatternNode, types: Sequence[TensorType], env: Env, draw: bool) -> Attrs:
        decl = self.ops[node.op]
        if draw:
            for keyword in node.attrs:
                a = decl.attr(keyword.name)
                assert a is not None
                value = keyword.value
                if isinstance(value, ast.Name) and value.id not in env:
                    if value.id not in a.choices and decl.preset(a.name, value.id) is None:
                        env[value.id] = self._value(a, node.op, types)
                elif isinstance(value, ast.ListExpr) and isinstance(value.items, tuple):
                    for item in value.items:
                        if isinstance(item, ast.Name) and item.id not in env:
                            env[item.id] = self.rng.choice((0, 1, 2))
        return attributes(decl, node.attrs, env, types)

    def _keep(self, node: PatternNode, env: Env) -> None:
        """Attribute variables that a well-typed operator has bound."""
        for keyword in node.attrs:
            for name in names_of(keyword.value):
                if name.id in env and name.id != self.rule.index:
                    self.env.setdefault(name.id, env[name.id])

    def _value(self, a: AttrDecl, op: str, types: Sequence[TensorType]) -> Any:
        rng = self.rng
        shape = types[0].shape if types else ()
        draws: dict[str, Callable[[], Any]] = {
            "axis": lambda: rng.randrange(max(1, len(shape))),
            "float": lambda: rng.choice((0.5, 0.25, 0.00001)),
            "bool": lambda: rng.random() < 0.5,
            "dtype": lambda: self.dtype,
            "choice": lambda: rng.choice(a.choices),
            "int": lambda: rng.choice((0, 0, 1, 1, 2, 3, 4, 6)),
            "ints": lambda: tuple(rng.choice((0, 0, 1, 2)) for _ in shape),
        }
        if a.name == "perm":
            order = list(range(len(shape)))
            rng.shuffle(order)
            return tuple(order)
        if a.name == "shape":
            return _factors(types[0].size, rng) if types else tuple(rng.choice(self.pool) for _ in range(2))
        if a.length is not None:
            return tuple(rng.choice(_SMALL.get(a.name, (1, 2))) for _ in range(a.length))
        return draws[a.type]()


def _factors(size: int, rng: random.Random) -> tuple[int, ...]:
    """A shape with this many elements."""
    out: list[int] = []
    while size > 1 and len(out) < 3:
        d = rng.choice([d for d in range(1, size + 1) if size % d == 0])
        out.append(d)
        size //= d
    return (*out, size)


def _flat(value: Any) -> tuple[TensorType, ...]:
    return value if isinstance(value, tuple) else (value,)


def _constant(condition: ast.Expr) -> tuple[str, float]:
    """The variable and the number of ``value(x) == number``; an empty name for any other condition."""
    match condition:
        case ast.Binary("==", ast.Call("value", (ast.Name(name),)), ast.Const(number)):
            return name, float(number)
    return "", 0.0


def _ordered(nodes: Sequence[PatternNode], known: set[str]) -> Iterator[PatternNode]:
    """Nodes after those whose results they use: in attributes too."""
    waiting = list(nodes)
    results = {n.result for n in nodes}
    done: set[str] = set()
    while waiting:
        for node in waiting:
            needs = {a.removesuffix("[..]") for a in node.args} & results
            in_attrs = {n.id for k in node.attrs for n in names_of(k.value)} & results - known
            if needs | in_attrs <= done:
                break
        else:
            raise AssertionError(f"nodes form a cycle: {[n.result for n in waiting]}")
        waiting.remove(node)
        done.add(node.result)
        yield node
