"""Which rules are needed: those that the others do not derive."""

from __future__ import annotations

from collections.abc import Sequence

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.prove.goals import goal
from tensat_dl.verify.prove.prove import Prover

#: As many assignments as `tensat-dl prove` takes. A rule without a derivation takes all of the limits.
ASSIGNMENTS = 6
LIMITS = Limits(5_000, 6, k_multi=None)


def derivation(rule: RewriteRule, others: Sequence[RewriteRule], ops: OpTable) -> frozenset[str] | None:
    """Names of the rules that derive a rule; None if they do not, or if nobody knows within the limits."""
    wanted = goal(rule, Inference(ops), ASSIGNMENTS)
    (proof,) = Prover(tuple(others), ops, LIMITS).run([wanted])
    return frozenset(proof.axioms) if proof.derived else None
