"""The rules that TENSAT published, imported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rule_instances import Instance, instances, library

from tensat_dl.ir.graph import AttrValue, Graph, GraphBuilder
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ir.types import TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.load import read_source
from tensat_dl.lang.parser import parse
from tensat_dl.lang.rules import resolve_rule
from tensat_dl.lang.source import Source
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import infer
from tensat_dl.sexpr.importer import import_rules

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "tensat"

#: The rules that are well-typed and false, by file and line. (Three more lines repeat some of them.)
FALSE = frozenset(f"converted-{i}" for i in (91, 92, 93, 115, 116, 117)) | {
    "converted-multi-23",
    "converted-multi-25",
}

#: Shapes under which each of them is well-typed and false: grouped convolutions, or groups of two sizes.
_TWO_GROUPS = {"x7": (1, 2, 3, 3), "x8": (1, 2, 3, 3), "x10": (2, 1, 1, 1), "x11": (2, 1, 1, 1)}
_TWO_SIZES = {"x7": (1, 2, 3, 3), "x8": (1, 2, 3, 3), "x10": (2, 2, 1, 1), "x11": (4, 2, 1, 1)}
COUNTEREXAMPLES = {
    **dict.fromkeys(FALSE, _TWO_GROUPS),
    **dict.fromkeys(("converted-92", "converted-93"), _TWO_SIZES),
}
#: Shapes for rules that convolve a tensor with itself, which random draws seldom satisfy.
_SQUARE = dict.fromkeys(("x10", "x11", "x12"), (2, 2, 3, 3))
EXAMPLES = dict.fromkeys((f"converted-{i}" for i in (32, 33, 34, 35, 53, 54, 55, 56)), _SQUARE)


@dataclass(frozen=True)
class Published:
    """One published rule, named by its file and line."""

    rule: RewriteRule

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def is_true(self) -> bool:
        return self.name not in FALSE


@cache
def published() -> tuple[Published, ...]:
    """All of them, single-pattern rules first; empty where the files are not at hand."""
    if not FOLDER.is_dir():
        return ()
    found: list[Published] = []
    for file, multi in (("converted.txt", False), ("converted_multi.txt", True)):
        imported = import_rules(read_source(str(FOLDER / file)), multi, library().ops)
        for item in parse(Source(file, imported.text)).items:
            assert isinstance(item, ast.Rule)
            found += map(Published, resolve_rule(item, library().ops))
    return tuple(found)


def taso_instances(item: Published, count: int) -> list[Instance]:
    """Instances of a true rule, or of a false one at its counterexample."""
    shapes = COUNTEREXAMPLES.get(item.name) or EXAMPLES.get(item.name)
    found: list[Instance] = []
    for seed in range(20):
        found += instances(item.rule, library().ops, seed, count, 200, shapes=shapes)
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
