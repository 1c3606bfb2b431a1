"""The reference semantics: what each operator of ``rules/ops.tsr`` computes, in NumPy.

``SEMANTICS`` maps an operator's name to a function of (arrays, attributes) that computes in the element type
of the arrays it gets; constants (``fill``, ``eye``, ..), which get none, are float64 for float types and
int64 for integer types. Polynomial operators, comparisons and data movement also work, exactly, on int64
arrays and on object arrays of Python integers, fractions or elements of a field.

``input`` and ``weight`` have no semantics (their values are given), nor have compositions such as ``silu``
(they are what their definition says).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tensat_dl.ops.semantics import elementwise, leaves, movement, normalisation, pooling, products, resizing
from tensat_dl.ops.semantics.types import Array, Attributes, Semantics, computed_in

__all__ = ["SEMANTICS", "Array", "Attributes", "Semantics", "computed_in"]

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {
        **leaves.SEMANTICS,
        **elementwise.SEMANTICS,
        **products.SEMANTICS,
        **pooling.SEMANTICS,
        **normalisation.SEMANTICS,
        **movement.SEMANTICS,
        **resizing.SEMANTICS,
    }
)
