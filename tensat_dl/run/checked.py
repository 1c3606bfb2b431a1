"""The verification of an answer: the rules that it rests on, and the comparison of both graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensat_dl.beside import beside, one_thread_each
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Iteration
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.table import OpTable
from tensat_dl.run.options import Options
from tensat_dl.verify.ahead import Ahead
from tensat_dl.verify.equivalence import Equivalence, compare
from tensat_dl.verify.exact.compare import Exact
from tensat_dl.verify.exact.run import compare_if_small, refuted_by
from tensat_dl.verify.opaque_laws import assumed, on_trust, rules_applied, unsampled
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.verify.rules.verify import verify_rules


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of verification."""

    verdicts: tuple[Verdict, ...] = ()
    equivalence: Equivalence | None = None
    exact: Exact | None = None
    interrupted: bool = False


@one_thread_each()
def verified(
    before: Graph,
    after: Graph,
    rules: Sequence[RewriteRule],
    ops: OpTable,
    table: OpTable,
    iterations: Sequence[Iteration],
    options: Options,
    progress: Progress,
    begun: Ahead | None = None,
) -> Checked:
    """The rules that were applied, over the operators ``ops``, and the comparison of the two graphs over ``table``,
    which has fused operators as well. ``begun`` is what was computed of the first graph during the search."""
    progress.phase("verify")
    checked = Checked()
    half = None if begun is None else begun.half
    exactly = beside(lambda: compare_if_small(before, after, table, options.seed, half and half()))
    try:
        applied = rules_applied(rules, iterations)
        proofs = options.trust == "proved"
        verdicts = unsampled(verify_rules(applied, ops, proofs=proofs, progress=progress.checking))
        checked = replace(checked, verdicts=verdicts)
        known = None if begun is None else begun.expected()
        compared = compare(before, after, semantics_of(table), options.seed, known=known)
        trusted = on_trust(compared, (before, after), iterations, assumed(rules, ops))
        checked = replace(checked, equivalence=trusted)
        exact = exactly.result()
        return replace(checked, equivalence=refuted_by(trusted, exact), exact=exact)
    except KeyboardInterrupt:
        return replace(checked, interrupted=True)
