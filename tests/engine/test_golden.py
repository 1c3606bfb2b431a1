"""The egglog text of representative rules, as it was last looked at.

To accept new texts: ``UPDATE_GOLDEN=1 python -m pytest tests/engine/test_golden.py``, then read the diff
of ``tests/engine/golden/``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.engine.compile import compile_rule, variants_of
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.syntax import written
from tensat_dl.rewrite.source import Forms
from tests.explore.graphs import library, program_of
from tests.lang.golden import check_golden

FOLDER = Path(__file__).parent / "golden"

#: Rules of the library, and what they are examples of.
LIBRARY = {
    "matmul-assoc": ("single, two ranks", (2, 3)),
    "pair-matmul-left": ("multi-pattern with its mirror image", (2, 3)),
    "pair-conv-enlarge": ("multi-pattern with conditions, not symmetric", (4,)),
    "group-matmul-left": ("members of a group", (2, 3)),
    "group-conv-enlarge": ("members of a group, computed attributes", (4,)),
    "add-zero": ("the value of a constant", (0, 2)),
    "concat-exchange": ("axis variables", (2,)),
    "smul-add": ("a variable of two siblings, compared", (0, 2)),
    "conv-join-terms": ("attributes of two siblings, compared", (4,)),
}
OWN = {
    "rank-specific": "rule rank-specific { relu(x) => softmax(x; axis = rank(x) - 1) }",
    "weights": "rule weights { matmul(matmul(x, u), v) where weight(u), weight(v) => matmul(x, matmul(u, v)) }",
    "not-weights": "rule not-weights { y = relu(x) where not weight(y) => y = relu(relu(x)) }",
    "division": "rule division { slice(x; axis = 0, start = a, stop = b) where (a - b) / 2 == 0 - 2 => relu(x) }",
    "operands": "rule operands { concat(tanh(x), exp(x), tanh(y), exp(y); axis = k) => concat(x, y; axis = k) }",
    "preset": """rule preset {
  poolmax(x; kernel = k, stride = s, pads = same) => relu(poolmax(x; kernel = k, stride = s, pads = same))
}""",
}


def text_of(name: str) -> str:
    if name in LIBRARY:
        (rule,) = (r for r in library().rules if r.name == name)
        schema, forms = Schema(library().ops), Forms(LIBRARY[name][1])
    else:
        program = program_of(OWN[name])
        (rule,) = (r for r in program.rules if r.name == name)
        schema, forms = Schema(program.ops), Forms((2, 4))
    compiled = compile_rule(rule, schema, variants_of(rule, schema, forms), {})
    assert compiled is not None
    return written(compiled.commands).removesuffix("\n")


@pytest.mark.parametrize("name", [*LIBRARY, *OWN])
def test_text(name: str) -> None:
    check_golden(FOLDER / f"{name}.egg", text_of(name))
