"""The tables of operators, with functions that read them from ONNX and write them. A new one is a row in the table of
its family."""

from __future__ import annotations

from tensat_dl.onnx.operator import Read, Write
from tensat_dl.onnx.operators import einsum, elementwise, images, movement, normalisation, products

_FAMILIES = (elementwise, images, products, einsum, normalisation, movement)
_ROWS = tuple(row for family in _FAMILIES for row in family.ROWS)

#: By ONNX's name of an operator.
READ: dict[str, Read] = {row.onnx: row.read for row in _ROWS if row.read is not None}
#: By the language's name of an operator.
WRITE: dict[str, Write] = {row.op: row.write for row in _ROWS if row.write is not None}
