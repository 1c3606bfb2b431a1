"""The rules that TENSAT published, as rules of our language: S-expressions in, rule text out.

Two conventions of theirs become explicit: operators never broadcast, and `concat` says the rank of its
operands. `split` cuts where the operands of the merge ended, which is at the size of the first output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rule_instances import Instance, instances, library

from tensat_dl.ir.graph import AttrValue, Graph, GraphBuilder
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ir.types import TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.parser import parse
from tensat_dl.lang.rules import resolve_rule
from tensat_dl.lang.source import Source
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import infer

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "tensat"

#: The rules that are well-typed and false: by file and number, counting rules from 0.
FALSE_SINGLE = frozenset((90, 91, 92, 97, 114, 115, 116, 117, 118))
FALSE_MULTI = frozenset((11, 12))

#: Shapes under which each of them is well-typed and false: grouped convolutions, or groups of two sizes.
_TWO_GROUPS = {"x7": (1, 2, 3, 3), "x8": (1, 2, 3, 3), "x10": (2, 1, 1, 1), "x11": (2, 1, 1, 1)}
_TWO_SIZES = {"x7": (1, 2, 3, 3), "x8": (1, 2, 3, 3), "x10": (2, 2, 1, 1), "x11": (4, 2, 1, 1)}
COUNTEREXAMPLES = {
    **dict.fromkeys(("single-90", "single-97", "single-114", "single-115", "single-116"), _TWO_GROUPS),
    **dict.fromkeys(("single-91", "single-92", "single-117", "single-118"), _TWO_SIZES),
    **dict.fromkeys(("multi-11", "multi-12"), _TWO_GROUPS),
}
#: Shapes for rules that convolve a tensor with itself, which random draws seldom satisfy.
_SQUARE = dict.fromkeys(("x10", "x11", "x12"), (2, 2, 3, 3))
EXAMPLES = dict.fromkeys((f"single-{i}" for i in (31, 32, 33, 34, 52, 53, 54, 55)), _SQUARE)

SExpr = str | tuple["SExpr", ...]


@dataclass(frozen=True)
class Published:
    """One published rule. ``ranks`` are those that its concatenations name."""

    name: str
    rule: RewriteRule
    ranks: frozenset[int]
    is_true: bool


@cache
def published() -> tuple[Published, ...]:
    """All of them, single-pattern rules first; empty where the files are not at hand."""
    if not FOLDER.is_dir():
        return ()
    found: list[Published] = []
    singles = (FOLDER / "converted.txt").read_text(encoding="utf-8").split("\n")
    multis = (FOLDER / "converted_multi.txt").read_text(encoding="utf-8").split("\n")
    for i, line in enumerate(x for x in singles if x.strip()):
        found.append(_rule(f"single-{i}", [line], i not in FALSE_SINGLE))
    lines = [x for x in multis if x.strip()]
    for i in range(len(lines) // 2):
        found.append(_rule(f"multi-{i}", lines[2 * i : 2 * i + 2], i not in FALSE_MULTI))
    return tuple(found)


def _rule(name: str, lines: Sequence[str], is_true: bool) -> Published:
    sides: tuple[list[str], list[str]] = ([], [])
    ranks: set[int] = set()
    for i, line in enumerate(lines):
        for side, text in zip(sides, line.split("=>"), strict=True):
            side.append(f"  y{i} = {_expression(_read(text), ranks)}")
    left, right = ("\n".join(s) for s in sides)
    text = f"rule {name} {{\n{left}\n  =>\n{right}\n}}\n"
    (item,) = parse(Source(f"{name}.tsr", text)).items
    assert isinstance(item, ast.Rule)
    (rule,) = resolve_rule(item, library().ops)
    return Published(name, rule, frozenset(ranks), is_true)


def _read(text: str) -> SExpr:
    tokens = re.findall(r"[()]|[^\s()]+", text)

    def read() -> SExpr:
        token = tokens.pop(0)
        if token != "(":
            return token
        items: list[SExpr] = []
        while tokens[0] != ")":
            items.append(read())
        tokens.pop(0)
        return tuple(items)

    return read()


_ACTIVATIONS = {"0": "", "1": "act = sigmoid", "2": "act = relu", "3": "act = tanh"}


def _expression(e: SExpr, ranks: set[int]) -> str:
    if isinstance(e, str):
        return e.removeprefix("?").replace("input_", "x")
    match e:
        case ("matmul", str(act), x, y):
            return _call("matmul", [x, y], [_ACTIVATIONS[act]], ranks)
        case ("conv2d", str(sh), str(sw), str(pad), str(act), x, w):
            pads = {"0": "same", "1": "valid"}[pad]
            attrs = [f"stride = [{sh}, {sw}]", f"pads = {pads}", _ACTIVATIONS[act]]
            return _call("conv2d", [x, w], attrs, ranks)
        case ("concat", str(axis), str(rank), x, y):
            ranks.add(int(rank))
            return _call("concat", [x, y], [f"axis = {axis}"], ranks)
        case ("split_0", ("split", str(axis), x)):
            return _call("slice", [x], [f"axis = {axis}", "start = 0", f"stop = dim(y0, {axis})"], ranks)
        case ("split_1", ("split", str(axis), x)):
            start, stop = f"dim(y0, {axis})", f"dim(y0, {axis}) + dim(y1, {axis})"
            return _call("slice", [x], [f"axis = {axis}", f"start = {start}", f"stop = {stop}"], ranks)
        case ("ewadd" | "ewmul" | "relu" as op, *args):
            return _call(str(op), args, [], ranks)
    raise ValueError(f"unknown operator in {e}")


def _call(op: str, args: Sequence[SExpr], attrs: Sequence[str], ranks: set[int]) -> str:
    given = ", ".join(a for a in attrs if a)
    operands = ", ".join(_expression(a, ranks) for a in args)
    return f"{op}({operands}{'; ' + given if given else ''})"


def well_typed_for_taso(item: Published, instance: Instance) -> bool:
    """Whether an instance is one of TASO's language: no broadcasting, ranks as its concatenations say."""
    for a in instance.source:
        types = [instance.types[x] for x in a.args]
        if a.op in ("ewadd", "ewmul") and types[0] != types[1]:
            return False
        if a.op == "concat" and types[0].rank not in item.ranks:
            return False
    return True


def taso_instances(item: Published, count: int) -> list[Instance]:
    """Instances of a true rule, or of a false one at its counterexample."""
    shapes = COUNTEREXAMPLES.get(item.name) or EXAMPLES.get(item.name)
    found: list[Instance] = []
    for seed in range(20):
        drawn = instances(item.rule, library().ops, seed, 4 * count, 200, shapes=shapes)
        found += [i for i in drawn if well_typed_for_taso(item, i)]
        if len(found) >= count:
            break
    return found[:count]


# ---- graphs ---------------------------------------------------------------------------------------------


class Sides:
    """The two sides of rules as graphs over common inputs, whose names start with a prefix per rule."""

    def __init__(self, name: str, ops: OpTable) -> None:
        self.builder = GraphBuilder(name)
        self.ops = ops
        self.outputs: list[tuple[str, int]] = []

    def add(self, prefix: str, instance: Instance, side: str) -> None:
        known: dict[str, int] = {}
        for name, t in instance.variables.items():
            label = f"{prefix}_{name}"
            known[name] = self._node("input", (), {"name": label, "dtype": t.dtype, "shape": t.shape}, label)
        for a in instance.source if side == "source" else instance.target:
            known[a.result] = self._node(a.op, tuple(known[x] for x in a.args), dict(a.attrs), "")
        for i, pair in enumerate(instance.outputs):
            node = known[pair[0] if side == "source" else pair[1]]
            self.outputs.append((f"{prefix}_{side}_{i}", node))

    def _node(self, op: str, inputs: tuple[int, ...], attrs: dict[str, AttrValue], name: str) -> int:
        ordered = tuple((a.name, attrs[a.name]) for a in self.ops[op].attrs)
        types = [self.builder.nodes[i].types[0] for i in inputs]
        result: tuple[TensorType, ...] = infer(self.ops, op, types, attrs).concrete()
        return self.builder.add(op, inputs, ordered, result, name)

    def graph(self) -> Graph:
        return self.builder.finish(self.outputs)
