"""Traits of the library's operators that neither their declarations nor their semantics say: one row for each.

Operators that a user's file declares have no row, and the traits of `Traits()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tensat_dl.core.graph import Attrs
from tensat_dl.ops.semantics.elementwise import ACTIVATIONS, FUNCTIONS

Family = Literal["product", "elementwise", "normalisation", "pooling", "movement", "leaf", "other"]
#: How a weight is drawn: so that its use says how, or as others of its shape are.
Drawn = Literal["near one", "near zero", "by shape"]


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of one operator. Operands are numbered from 0."""

    family: Family = "other"  #: by which pictures colour it
    chained: bool = False  #: floats to floats, each element by itself: a chain of these is one kernel
    rowwise: bool = False  #: along an axis, of which a kernel holds whole rows
    renames: bool = False  #: a view of a contiguous tensor that is contiguous
    activation: bool = False  #: products may end in it
    keeps_zero: bool = False  #: of zeros its result is zero
    keeps_positive: bool = False  #: of positive operands its result is positive, of others it need not be
    positive: tuple[int, ...] = ()  #: operands of which only positive ones give numbers
    #: Operands that are weights in a model, with how they are drawn.
    weights: Mapping[int, Drawn] = field(default_factory=dict)


def traits(op: str) -> Traits:
    """The traits of an operator, whoever declared it."""
    return TRAITS.get(op, _UNKNOWN)


def having(trait: Callable[[Traits], object]) -> frozenset[str]:
    """The operators with a trait."""
    return frozenset(op for op, own in TRAITS.items() if trait(own))


def positive_operands(op: str, attrs: Attrs) -> tuple[int, ...]:
    """The operands of an application that have to be positive: of whole powers none."""
    whole = op == "power" and float(str(dict(attrs)["exponent"])).is_integer()
    return () if whole else traits(op).positive


def _function(name: str, keeps_positive: bool = False) -> Traits:
    """The traits of an elementwise function of one number follow from its values at zero and at negative numbers."""
    with np.errstate(all="ignore"):
        at_zero, below = FUNCTIONS[name].apply(np.array([0.0, -1.0])).tolist()
    return Traits(
        "elementwise",
        chained=True,
        activation=name in ACTIVATIONS,
        keeps_zero=at_zero == 0,
        keeps_positive=keeps_positive,
        positive=() if np.isfinite(below) else (0,),
    )


def _all(names: str, own: Traits) -> dict[str, Traits]:
    return dict.fromkeys(names.split(), own)


_UNKNOWN = Traits()

#: By operator.
TRAITS: Mapping[str, Traits] = {
    **_all("input weight fill iota eye conv_identity conv_average", Traits("leaf")),
    **_all("ewadd ewmul ewdiv smul", Traits("elementwise", chained=True, keeps_positive=True)),
    **_all("ewsub ewmax ewmin", Traits("elementwise", chained=True)),
    **{name: _function(name, name in ("sqrt", "rsqrt")) for name in FUNCTIONS},
    "power": Traits("elementwise", chained=True, keeps_positive=True, positive=(0,)),
    **_all("silu neg abs clip leakyrelu prelu elu hardsigmoid", Traits("elementwise", chained=True)),
    **_all("hardswish softplus softsign mish gelu_tanh mod", Traits("elementwise", chained=True)),
    **_all("equal greater not_equal greater_equal select one_hot cast", Traits("elementwise")),
    **_all("logical_not logical_and logical_or", Traits("elementwise")),
    "dropout": Traits("elementwise", renames=True, keeps_positive=True),
    **_all("matmul conv2d", Traits("product", weights={1: "by shape", 2: "near zero"})),
    "upconv": Traits("product"),
    "batchnorm": Traits(
        "normalisation",
        positive=(4,),
        weights={1: "near one", 2: "near zero", 3: "near zero", 4: "by shape"},
    ),
    "layernorm": Traits("normalisation", rowwise=True, weights={1: "near one", 2: "near zero"}),
    "rmsnorm": Traits("normalisation", rowwise=True, weights={1: "near one"}),
    "softmax": Traits("normalisation", rowwise=True),
    "instancenorm": Traits("normalisation"),
    **_all("poolmax poolavg", Traits("pooling", keeps_positive=True)),
    **_all("reduce_sum reduce_mean reduce_max", Traits("pooling", rowwise=True, keeps_positive=True)),
    "reshape": Traits("movement", renames=True, keeps_positive=True),
    **_all("transpose concat slice expand", Traits("movement", keeps_positive=True)),
    "gather": Traits("movement", weights={0: "by shape"}),
    **_all("pad resize upsample depth_to_space pixel_shuffle", Traits("movement")),
    **_all("space_to_depth enlarge merge proj dilate", Traits("movement")),
    **_all("reverse dynamic_slice dynamic_update_slice", Traits("movement")),
}
