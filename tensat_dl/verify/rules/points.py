"""Points at which a rule that is true elsewhere turns a number into none, as 0 / 0 is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tensat_dl.core.graph import FLOATS
from tensat_dl.ops.semantics.arrays import Array, Semantics
from tensat_dl.verify.equivalence import place
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.execute import ExecutionError, execute
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.weights import Distribution, draw

#: How many instances are tried.
INSTANCES = 6


def lost_numbers(instances: Iterable[Instance], semantics: Mapping[str, Semantics], seed: int) -> str:
    """A remark about inputs that are 0, for which the left side of an instance has a number and the right side has
    none; "" if there is no such instance."""
    for instance, _ in zip(instances, range(INSTANCES), strict=False):
        types = leaves((instance.before, instance.after))
        values = {name: np.abs(draw(name, t, Distribution(), seed)) for name, t in types.items()}
        floats = [name for name, t in types.items() if t.dtype in FLOATS]
        for zeros in [[name] for name in floats] + [floats] * (len(floats) > 1):
            found = _lost(instance, values | {name: 0 * values[name] for name in zeros}, semantics)
            if found is not None:
                return f"differs where {' and '.join(zeros)} {'is' if len(zeros) == 1 else 'are'} 0: {found}"
    return ""


def _lost(instance: Instance, values: Mapping[str, Array], semantics: Mapping[str, Semantics]) -> str | None:
    """As in ``0 on the left, NaN on the right``."""
    try:
        with np.errstate(all="ignore"):
            left, right = (execute(g, values, semantics) for g in (instance.before, instance.after))
    except ExecutionError:
        return None
    for x, y in zip(left, right, strict=True):
        lost = np.isfinite(x) & ~np.isfinite(y)
        if lost.any():
            index = place(lost)
            right_text = "NaN" if np.isnan(y[index]) else "infinite"
            return f"{float(x[index]):.6g} on the left, {right_text} on the right"
    return None
