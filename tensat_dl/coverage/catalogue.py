"""Equations that no declaration tells: those of products with weights, of layouts, of sums of windows.

They stand in ``equations.tsr``, as rules. A rule that is called ``OP-TRANSFORMATION`` or ``OP-TRANSFORMATION-..`` is
about that cell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tensat_dl.coverage.equations import Law
from tensat_dl.coverage.transformations import TRANSFORMATIONS

_RULE = re.compile(r"^rule ([\w-]+) \{(.*?)\}$", re.MULTILINE | re.DOTALL)


@cache
def catalogue() -> dict[tuple[str, str], list[Law]]:
    """The equations by operator and transformation."""
    text = (Path(__file__).parent / "equations.tsr").read_text(encoding="utf-8")
    names = sorted((t.name for t in TRANSFORMATIONS), key=len, reverse=True)
    found: dict[tuple[str, str], list[Law]] = defaultdict(list)
    for rule, body in _RULE.findall(text):
        op, _, rest = rule.partition("-")
        (transformation, *_) = (t for t in names if rest == t or rest.startswith(f"{t}-"))
        left, right = (" ".join(side.split()) for side in body.split("=>"))
        term, _, where = left.partition(" where ")
        found[op, transformation].append(Law(term, right, (where,) if where else ()))
    return found


def stated(op: str, transformation: str) -> list[Law]:
    """The equations about an operator and a transformation."""
    return catalogue().get((op, transformation), [])
