"""Derives rules from axioms, which are rules of packs.

All goals share one e-graph first, with the axioms that are none of them. Each goal is then derived alone, one
assignment after the other: from axioms that were enough before, from those about its own operators, from all but
itself. From the axioms that were enough at an assignment, axioms are dropped until each is needed. If some of these
have no proof for all sizes, the goal is tried once more without them. What needs a false axiom is not derived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensat_dl.core.minimal import minimal
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits, Stop
from tensat_dl.jobs.job import Job, Work
from tensat_dl.jobs.run import Where, done
from tensat_dl.lang.imports import find
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.compositions import is_definition
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.prove.equality import Equality, find_equal, near, tight
from tensat_dl.verify.prove.goals import Goal, Pair, Proof
from tensat_dl.verify.rules.verdict import Status
from tensat_dl.verify.rules.verify import verify_rules

#: Told what is tried, and how it goes.
Progress = Callable[[str, str], None]
#: Iterations on the e-graph of all goals. It is for what is found at once: later ones make room scarce.
TOGETHER = 2
#: A goal, and those of its pairs that are known to be equal.
Begun = tuple[Goal, frozenset[int]]
#: Goals of a job, which learn from each other what axioms are enough; however many jobs run at a time.
TOGETHER_IN_JOB = 16
#: How many of the last sets of axioms are tried before others are looked for.
REMEMBERED = 6


@dataclass
class Prover:
    """``limits`` bind each e-graph, apart from its seconds, which bind everything together."""

    axioms: tuple[RewriteRule, ...]
    ops: OpTable
    limits: Limits
    progress: Progress = lambda what, detail: None
    status: Callable[[str], Status] = lambda name: "proved"  #: the verdict on an axiom, by name
    _sets: list[frozenset[str]] = field(default_factory=list)  #: that were enough, the last ones first
    _end: float | None = None
    _stop: Stop | None = None  #: why everything ends

    def __post_init__(self) -> None:
        seconds = self.limits.seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def run(self, goals: Sequence[Goal]) -> Iterator[Proof]:
        """A proof for each goal, in their order. Ctrl-C and the end of the time make it try no more."""
        return self.each(self.together(goals))

    def each(self, goals: Sequence[Begun]) -> Iterator[Proof]:
        """A proof for each goal of which some pairs are known to be equal, in their order."""
        for goal, equal in goals:
            yield self._proof(goal, set(equal))

    def together(self, goals: Sequence[Goal]) -> list[Begun]:
        """Goals with those of their pairs that one e-graph of all goals makes equal."""
        begun, first, equal = [], 0, self._together(goals)
        for goal in goals:
            n = len(goal.pairs)
            begun.append((goal, frozenset(i - first for i in equal if first <= i < first + n)))
            first += n
        return begun

    @property
    def seconds_left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def _together(self, goals: Sequence[Goal]) -> frozenset[int]:
        """The pairs of all goals that one e-graph makes equal."""
        names = {goal.declared for goal in goals}
        axioms = [a for a in self.axioms if a.declared not in names]
        pairs = [pair for goal in goals for pair in goal.pairs]
        if len(goals) < 2 or not axioms:
            return frozenset()
        limits = replace(self.limits, iterations=min(self.limits.iterations, TOGETHER))
        found = self._explore(f"all {len(goals)} rules", pairs, axioms, limits)
        return frozenset() if found is None else found.equal

    def _proof(self, goal: Goal, equal: set[int]) -> Proof:
        """A goal of which some pairs are known to be equal: from proved axioms, if it can be; never from a false
        one."""
        axioms = [a for a in self.axioms if a.declared != goal.declared]
        found = self._proof_from(goal, equal, axioms)
        left: set[str] = set()
        while doubtful := {name for name in found.axioms if self.status(name) != "proved"} - left:
            left |= doubtful
            other = self._proof_from(goal, set(), [a for a in axioms if a.declared not in left])
            if not other.derived and all(self.status(name) != "refuted" for name in found.axioms):
                break
            found = other
        return found

    def _proof_from(self, goal: Goal, equal: set[int], axioms: Sequence[RewriteRule]) -> Proof:
        """A goal of which some pairs are known to be equal. The first that is not derived ends it."""
        used: set[str] = set()
        named = True
        left = list(range(len(goal.pairs)))
        while left:
            i = left.pop(0)
            names, stop = self._derive(goal.rule, goal.pairs[i], axioms)
            if names is None and i not in equal:
                return Proof(goal, frozenset(equal), (), stop)
            if names is None:  # it took the e-graph of all goals, or there is no time left
                named = False
                continue
            used |= names
            rest = [goal.pairs[j] for j in left]
            found = self._explore(goal.rule, rest, _named(axioms, used), self.limits)
            more = set() if found is None else {left[k] for k in found.equal}
            equal |= {i, *more}
            left = [j for j in left if j not in more]
        if not named or self._stop is not None:  # what was found to be needed may not be all
            return Proof(goal, frozenset(equal), (), None)
        return Proof(goal, frozenset(equal), tuple(sorted(used)), None)

    def _derive(
        self, rule: str, pair: Pair, axioms: Sequence[RewriteRule]
    ) -> tuple[frozenset[str] | None, Stop | None]:
        """Names of axioms that make a pair equal, each of them needed; or None, and the reason."""
        sets = [_named(axioms, names) for names in self._sets]
        close = near(pair, axioms)
        ways = [(chosen, True) for chosen in (*sets, close, axioms)]
        if any(a.kind == "group" for a in close):
            ways += [(chosen, False) for chosen in (*sets, close)]
        stop: Stop | None = None
        for chosen, both in ways:
            found = self._explore(rule, [pair], chosen, self.limits, both)
            if found is not None and found.equal:
                names = self._least(rule, pair, axioms, found, both)
                self._sets = [names, *(s for s in self._sets if s != names)][:REMEMBERED]
                return names, None
            if found is not None and chosen is axioms:
                stop = found.stop
        return None, self._stop or stop

    def _least(
        self, rule: str, pair: Pair, axioms: Sequence[RewriteRule], found: Equality, both: bool
    ) -> frozenset[str]:
        """Of axioms that made a pair equal those that are needed."""
        limits = tight(self.limits, found)

        def enough(some: Sequence[str]) -> bool:
            again = self._explore(rule, [pair], _named(axioms, some), limits, both)
            return again is not None and bool(again.equal)

        applied = {a.declared for a in axioms if a.name in found.applied}
        return frozenset(minimal(sorted(applied), enough))

    def _explore(
        self,
        what: str,
        pairs: Sequence[Pair],
        axioms: Sequence[RewriteRule],
        limits: Limits,
        both: bool = True,
    ) -> Equality | None:
        """None if there is nothing to look for, or no time left."""
        left = None if self._end is None else self._end - time.monotonic()
        if left is not None and left <= 0:
            self._stop = self._stop or "time"
        if self._stop is not None or not pairs:
            return None

        def tell(iteration: int, nodes: int, equal: int) -> None:
            done = f"{equal} of {len(pairs)} equal"
            self.progress(what, f"iteration {iteration}, {nodes:,} e-nodes, {done}")

        self.progress(what, "")
        found = find_equal(pairs, axioms, self.ops, replace(limits, seconds=left), tell, both)
        if found.stop == "interrupted":
            self._stop = "interrupted"
        return found


@dataclass
class AxiomStatus:
    """The verdicts on axioms, which are examined when they are asked for. ``known`` has those by name: "proved" where
    both directions of a rule are, "refuted" where one is. Definitions of operators count as proved."""

    axioms: tuple[RewriteRule, ...]  #: without definitions
    ops: OpTable
    known: dict[str, Status] = field(default_factory=dict)

    @staticmethod
    def of(axioms: Sequence[RewriteRule], program: Program) -> AxiomStatus:
        """Those of a program's axioms."""
        return AxiomStatus(tuple(a for a in axioms if not is_definition(a, program.ops)), program.ops)

    def __call__(self, name: str) -> Status:
        if name not in self.known:
            rules = [a for a in self.axioms if a.declared == name]
            found = {v.status for v in verify_rules(rules, self.ops, proofs=True)}
            worst: Status = "refuted" if "refuted" in found else "tested"
            self.known[name] = "proved" if found <= {"proved"} else worst
        return self.known[name]


def proofs(
    prover: Prover, status: AxiomStatus, goals: Sequence[Goal], where: Where | None, told: Progress
) -> Generator[tuple[int, Proof], None, None]:
    """The proofs of goals, by their positions, as they come: from jobs of some goals each. If that is one job and
    nobody says ``where``, it is done in this process. A job that fails proves none of its goals."""
    shares = range(0, len(goals), TOGETHER_IN_JOB)
    begun = prover.together(goals)
    if where is None and len(shares) < 2:
        yield from enumerate(prover.each(begun))
        return
    shared = prover.axioms, tuple(prover.ops.values()), prover.limits, status.axioms
    work = Work("tensat_dl.verify.prove.prove:share_prover", shared)
    jobs = [
        Job(str(first), (tuple(begun[first : first + TOGETHER_IN_JOB]), prover.seconds_left))
        for first in shares
    ]
    count = 0
    with (where or Where()).workers(work) as workers, closing(done(workers, jobs)) as ended:
        for k, e in ended:
            some = goals[shares[k] : shares[k] + TOGETHER_IN_JOB]
            found: Sequence[Proof] = [Proof(goal, frozenset(), (), None) for goal in some]
            if not e.failed:
                found, known = e.reply.answer
                status.known.update(known)
            count += len(some)
            told(f"{count} of {len(goals)} rules", e.reply.reason)
            yield from enumerate(found, shares[k])


def share_prover(
    axioms: tuple[RewriteRule, ...],
    ops: tuple[OpDecl, ...],
    limits: Limits,
    examined: tuple[RewriteRule, ...],
) -> Callable[[tuple[Sequence[Begun], float | None]], tuple[list[Proof], dict[str, Status]]]:
    """Proves some goals, within some seconds. Answers with what it has found of axioms, too."""
    table = OpTable(ops)

    def prove(asked: tuple[Sequence[Begun], float | None]) -> tuple[list[Proof], dict[str, Status]]:
        goals, seconds = asked
        status = AxiomStatus(examined, table)
        prover = Prover(axioms, table, replace(limits, seconds=seconds), status=status)
        return list(prover.each(goals)), status.known

    return prove


def _named(axioms: Sequence[RewriteRule], names: Collection[str]) -> list[RewriteRule]:
    """The axioms of these names, in both directions."""
    return [a for a in axioms if a.declared in names]


def axioms_of(program: Program, packs: Sequence[str]) -> tuple[RewriteRule, ...]:
    """The rules of the packs that a program was loaded with, imports included, and the definitions of
    compositions."""
    paths = [find(pack, Path.cwd()) for pack in packs]
    names = {rule.name for path in paths if path is not None for rule in load_program(str(path)).rules}
    return tuple(rule for rule in program.rules if rule.name in names or is_definition(rule, program.ops))
