"""The verification of an answer: the rules that it may rest on and those that it does, and the comparison of both
graphs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from tensat_dl.beside import beside, one_thread_each
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.words import counted
from tensat_dl.engine.exploration import Iteration
from tensat_dl.lang.node_names import node_names
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.source import MAX_RANK
from tensat_dl.run.options import Options
from tensat_dl.verify.ahead import Ahead
from tensat_dl.verify.equivalence import Equivalence, compare
from tensat_dl.verify.exact.result import Exact
from tensat_dl.verify.exact.run import compare_if_small, refuted_by
from tensat_dl.verify.opaque_laws import UNSAMPLED, assumed, on_trust, rules_applied, unsampled
from tensat_dl.verify.rounding import rounded_jumps
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.verify.rules.verify import verify_rules

#: A note names at most so many tensors.
NAMED = 4


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of verification. ``interrupted`` says that the comparison of the graphs is not complete."""

    verdicts: tuple[Verdict, ...] = ()
    equivalence: Equivalence | None = None
    exact: Exact | None = None
    interrupted: bool = False

    @property
    def unexamined(self) -> int:
        """The number of applied rules that Ctrl-C left without an examination."""
        return sum(not v.examined for v in self.verdicts)

    @property
    def incomplete(self) -> bool:
        """Whether Ctrl-C has left out anything."""
        return self.interrupted or self.unexamined > 0


def relied_on(
    rules: Sequence[RewriteRule], ops: OpTable, options: Options, progress: Progress
) -> tuple[tuple[RewriteRule, ...], tuple[str, ...]]:
    """The rules that a run may use that does not use any: those that keep roundings, and those that are proved, if it
    must; and notes about false rules, which are left out."""
    proved = options.trust == "proved"
    progress.phase("verify")
    verdicts = verify_rules(rules, ops, proofs=proved, progress=progress.checking)
    used = tuple(
        rule
        for rule, v in zip(rules, verdicts, strict=True)
        if (options.reassociate or v.rounding == "exact") and (not proved or v.status == "proved")
    )
    return used, tuple(f"rule {v.rule} is false: not used" for v in verdicts if v.status == "refuted")


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
    which has fused operators as well. ``begun`` is what was computed of both during the search.

    The examination takes about a second for each rule. The comparison says more of this answer, so Ctrl-C during
    the examination goes on to it; another Ctrl-C ends that.
    """
    progress.phase("verify")
    checked = Checked()
    half = None if begun is None else begun.half
    exactly = beside(lambda: compare_if_small(before, after, table, options.seed, half and half()))
    try:
        applied = rules_applied(rules, iterations)
        verdicts = unsampled(
            verify_rules(applied, ops, proofs=True, progress=progress.checking, partial=True)
        )
        checked = replace(checked, verdicts=verdicts)
        known = None if begun is None else begun.expected()
        found = None if begun is None else begun.outputs(after, table)
        compared = compare(before, after, semantics_of(table), options.seed, known=known, found=found)
        trusted = on_trust(compared, (before, after), iterations, assumed(rules, ops))
        checked = replace(checked, equivalence=trusted)
        exact = exactly.result()
        return replace(checked, equivalence=refuted_by(trusted, exact), exact=exact)
    except KeyboardInterrupt:
        return replace(checked, interrupted=True)


def notes_on(
    before: Graph, after: Graph, ops: OpTable, extended: OpTable, used: Container[str], checked: Checked
) -> list[str]:
    """What is to be said of an answer that the rules ``used`` led to, whatever search found it. ``extended`` has the
    answer's operators, too."""
    left = checked.unexamined
    return [
        *(
            [f"interrupted: {left:,} of {counted(len(checked.verdicts), 'applied rule')} not examined"]
            if left
            else []
        ),
        *(f"rule {v.rule}: {v.reason}" for v in checked.verdicts if v.reason == UNSAMPLED),
        *beyond_rules(before, ops),
        *rounded_jumps(before, after, extended, used, checked.verdicts),
        *(["interrupted: the result is not verified"] if checked.interrupted else []),
    ]


def beyond_rules(graph: Graph, ops: OpTable) -> list[str]:
    """A note about the tensors that have more dimensions than rules take, by their names."""
    large = [i for i, n in enumerate(graph.nodes) if any(t.rank > MAX_RANK for t in n.types)]
    if not large:
        return []
    names = node_names(graph, ops)
    shown = ", ".join(names[i] for i in large[:NAMED])
    more = f" and {len(large) - NAMED:,} more" if len(large) > NAMED else ""
    return [f"rules take tensors of up to {MAX_RANK} dimensions, so none applies to {shown}{more}"]
