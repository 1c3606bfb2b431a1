"""How much a rule is worth: what it saves on models, and the estimated cost of one side less that of the other."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.core.graph import Attrs, TensorType
from tensat_dl.cost.model import CostModel
from tensat_dl.discover.candidates import Tree
from tensat_dl.discover.corpus import Corpus
from tensat_dl.discover.generalise import General
from tensat_dl.discover.written import rewrites
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType

#: By how much dimensions are larger there than where rules are found. Windows stay as they are.
SCALE = 64
SPATIAL = (2, 3)


@dataclass(frozen=True, order=True, slots=True)
class Worth:
    """Estimated milliseconds: what a rule saves on the models of a corpus where it applies as it stands; and the
    difference between its sides, which other rules may make use of. Merges save much in this way."""

    corpus: float
    sides: float


def worth(g: General, costs: CostModel, corpus: Corpus | None) -> Worth:
    """How much a rule is worth."""
    rules = rewrites(g.text("rule"), costs.table) if corpus is not None else []
    saved = sum(corpus.saving(r) for r in rules if r.kind == "single") if corpus is not None else 0.0
    return Worth(saved, saving(g, costs))


def saving(g: General, costs: CostModel) -> float:
    """Milliseconds between the two sides; 0 where they cannot be told at these sizes."""
    infer = Inference(costs.table)
    try:
        left, right = (_cost(t, costs, infer) for t in (g.equation.left, g.equation.right))
    except IllTyped:
        return 0.0
    return abs(left - right)


def _cost(t: Tree, costs: CostModel, infer: Inference) -> float:
    """The cost of a term; what occurs twice is computed once."""
    known: dict[object, tuple[TensorType, float]] = {}

    def visit(t: Tree) -> TensorType:
        if t.variable >= 0:
            return _scaled(t.type)
        key = t.shape
        if key not in known:
            types = [visit(a) for a in t.args]
            attrs = _scaled_attrs(t)
            inputs = [SymType(x.dtype, x.shape) for x in types]
            (out,) = infer(t.op, inputs, dict(attrs)).concrete()
            known[key] = (out, costs.estimate(t.op, attrs, tuple(types), out))
        return known[key][0]

    visit(t)
    return sum(ms for _, ms in known.values())


def _factor(t: TensorType, axis: int) -> int:
    return 1 if t.rank == len(SPATIAL) + 2 and axis in SPATIAL else SCALE


def _scaled(t: TensorType) -> TensorType:
    return TensorType(t.dtype, tuple(d * _factor(t, i) for i, d in enumerate(t.shape)))


def _scaled_attrs(t: Tree) -> Attrs:
    """Where a slice begins and ends grows with the dimension."""
    if t.op != "slice":
        return t.attrs
    given = dict(t.attrs)
    axis = given["axis"]
    assert isinstance(axis, int)
    factor = _factor(t.args[0].type, axis)
    return tuple((k, v if k == "axis" else v * factor) for k, v in t.attrs)
