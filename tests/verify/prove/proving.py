"""Rules and axioms as text, and what comes of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tensat_dl.engine.exploration import Limits
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.prove.goals import Goal, Proof, goal
from tensat_dl.verify.prove.prove import Progress, Prover

LIMITS = Limits(nodes=2_000, iterations=6, k_multi=None)
ADD = """
rule add-assoc { ewadd(ewadd(x, y), z) => ewadd(x, ewadd(y, z)) }
"""
RELU = "rule relu-relu { relu(relu(x)) => relu(x) }\n"


@cache
def program(text: str) -> Program:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsr"
        path.write_text(text)
        return load_program(str(path))


def goals(text: str, assignments: int = 3) -> list[Goal]:
    rules = program(text)
    infer = Inference(rules.ops)
    own = [r for r in rules.rules if r.name.removesuffix("-back") in rules.own_rules]
    return [goal(rule, infer, assignments) for rule in own]


def prove(
    text: str, axioms: str, limits: Limits = LIMITS, progress: Progress = lambda what, detail: None
) -> list[Proof]:
    """The proofs of rules from axioms."""
    given = program(axioms)
    return list(Prover(given.rules, given.ops, limits, progress).run(goals(text)))
