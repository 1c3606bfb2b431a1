"""How an optimized graph compares with the original where both run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: A model that is right for the sizes that it was made for, and wrong for others, is ``narrow``.
Status = Literal["agrees", "differs", "narrow", "not compared"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the comparison showed, on which inputs. ``max_rel`` is the largest difference over the largest magnitude
    of its output, and ``tolerance`` what it may be."""

    status: Status
    max_rel: float
    message: str = ""
    inputs: str = ""
    tolerance: float = 0.0
