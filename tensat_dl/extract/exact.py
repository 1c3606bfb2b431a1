"""The exact method: reductions, relaxation with loop cuts, then the integer program on the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, inf

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract.ascent import Ascent
from tensat_dl.extract.budget import Budget
from tensat_dl.extract.cutting import Cutting
from tensat_dl.extract.descent import descend
from tensat_dl.extract.extraction import TOLERANCE
from tensat_dl.extract.formulation import formulate
from tensat_dl.extract.greedy import dag_greedy, extended
from tensat_dl.extract.incumbent import Incumbent, offer_greedy
from tensat_dl.extract.loops import Loop, remaining
from tensat_dl.extract.mip import solve_mip
from tensat_dl.extract.problem import Choice, Problem, check_costs, from_egraph
from tensat_dl.extract.reduce import (
    Reduced,
    contract,
    fixed,
    forced_at_sight,
    forced_bound,
    pieces,
    placed,
    places,
    reduce_contracted,
    shape,
)
from tensat_dl.extract.relaxation import Relaxed
from tensat_dl.extract.small_parts import follow, narrow, search

#: With more e-nodes than this a problem is huge; with a gap above this, too, the integer program is hopeless before
#: the search ends.
_HUGE = 5_000
_WIDE = 0.1

#: Work on making the first answer cheaper, as a share of the work left.
_DESCENT_SHARE = 0.2

#: Work on the relaxation, as a share of the work left. It stops sooner where cuts no longer help.
_RELAXATION_SHARE = 0.9

#: Work on parts near a solution of the relaxation, as a share of the work left; the share of the last gap below which
#: they are solved again, if they helped and if they did not; and the least value of an e-node of the solution.
_NARROW_SHARE = 0.5
_NARROWER = 0.9
_MUCH_NARROWER = 0.7
_CHOSEN = 1e-6

#: For problems of more e-nodes the integer program and the search for a better choice take turns with these shares of
#: the work left: at first, doubled where neither helped, and last.
_LARGE = 300
_FIRST_EFFORT = 0.15
_LAST_EFFORT = 0.5

#: Pieces of a shape that has more than this share of the e-nodes tell how they get on: putting all together for each
#: of many small ones would take longer than to solve them.
_TOLD = 0.05

#: A problem is cut into pieces before anything else if pieces of different shapes have at most this share of its
#: e-nodes: a graph of repeated blocks.
_REPETITIVE = 0.5

#: The relaxation is solved again after a reduction to less than this share of the e-nodes.
_SHRINK = 0.8


def improve(
    problem: Problem,
    best: Incumbent,
    preferred: frozenset[int],
    budget: Budget,
    searching: bool = True,
    loops: Sequence[Loop] = (),
    greedily: bool = False,
    solved: Solved | None = None,
) -> None:
    """Makes the incumbent as cheap, and its bound as high, as the budget allows.

    With ``searching``, a large problem that the relaxation leaves open is also searched for better choices, in turn
    with the integer program: this function solves small parts of it. ``loops`` are the loops of cuts that mattered in
    a larger problem. With ``greedily``, the incumbent is at least as cheap as what greedy extraction finds. Pieces
    that are ``solved`` are not solved again.
    """
    solved = Solved() if solved is None else solved
    best.stage = "reduction"
    apart = forced_at_sight(contract(problem, frozenset()))
    parts, settled = pieces(apart)
    shapes = [shape(part, preferred) for part in parts] if len(parts) != 1 else [None]
    if _repetitive(parts, shapes):  # solving one of each is far less work
        best.prove(apart.bound)
        whole = _Improvement(apart.problem, best, preferred, budget, searching, solved)
        whole.solve_apart(apart, parts, settled, shapes, loops)
        return
    if greedily:
        offer_greedy(best, preferred)
    reduced = reduce_contracted(apart.problem, best.cost, preferred)
    if reduced is None:
        best.prove(best.cost)
    else:
        if searching:
            best.stage = "search"
            with budget.share(_DESCENT_SHARE) as share:
                descend(reduced.problem, best, share)
        _Improvement(reduced.problem, best, preferred, budget, searching, solved).run(reduced, loops)


@dataclass(slots=True)
class Solved:
    """The best answers of pieces, which are proven, by their shapes: an e-graph that is asked for its answer at other
    prices, or that has grown, has most of its pieces as they were. And the problem of the last e-graph."""

    answers: dict[Hashable, Sequence[int]] = field(default_factory=dict)
    _last: tuple[EGraph, Problem] | None = None

    def problem(self, egraph: EGraph) -> Problem:
        """The problem of an e-graph, which may be the last one at other prices. Raises `ExtractionError`."""
        if self._last is not None and _alike(self._last[0], egraph):
            check_costs(egraph)
            problem, costs = self._last[1], egraph.cost.tolist()
            return replace(problem, cost={n: costs[n] for n in problem.cost})
        problem = from_egraph(egraph)
        self._last = egraph, problem
        return problem

    def offered(self, key: Hashable, best: Incumbent) -> bool:
        """Offers the answer of a shape, if that is known, to a piece that has it."""
        found = self.answers.get(key)
        if found is not None:
            best.offer(placed(found, best.problem))
            best.prove(best.cost)
        return found is not None

    def keep(self, key: Hashable, best: Incumbent) -> None:
        """Keeps the answer of a piece of this shape, if it is proven."""
        if best.proven:
            self.answers[key] = places(best.choice, best.problem)


def _alike(a: EGraph, b: EGraph) -> bool:
    """Whether two e-graphs are known to be the same but for their prices."""
    same = a.children is b.children and a.node_class is b.node_class and a.weights_only is b.weights_only
    return same and a.roots == b.roots


@dataclass(slots=True)
class _Improvement:
    """The stages after the first reduction, and their memory."""

    base: Problem  #: as it was after the first reduction
    best: Incumbent
    preferred: frozenset[int]
    budget: Budget
    searching: bool
    solved: Solved
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    ahead: float = 0.0  #: work on the relaxation less that on parts near it
    narrowed: float = inf  #: the gap below which parts near the relaxation are worth solving again
    followed: float = inf  #: the cost below which orders are worth following again
    effort: float = _FIRST_EFFORT
    seed: int = 1  #: of the next search in neighbourhoods

    def run(self, reduced: Reduced | None, loops: Sequence[Loop]) -> None:
        """Goes through the stages until the problem is solved or the budget is used up.

        Where much of the problem goes on the way, they start again with the rest.
        """
        while reduced is not None:
            self.best.prove(reduced.bound)
            if self.budget.exhausted:
                return
            parts, settled = pieces(reduced)
            if len(parts) > 1:
                shapes = [shape(part, self.preferred) for part in parts]
                self.solve_apart(reduced, parts, settled, shapes, loops)
                return
            if reduced.marks is None:  # its relaxation would take too long
                return
            reduced, loops = self.solve_whole(reduced, loops)

    def solve_apart(
        self,
        reduced: Reduced,
        parts: Sequence[Problem],
        settled: Choice,
        shapes: Sequence[Hashable],
        loops: Sequence[Loop],
    ) -> None:
        """Solves the pieces one by one and offers their union.

        Pieces of one shape, of which graphs of repeated blocks have many, are solved once.
        """
        best, problem = self.best, reduced.problem
        best.stage = "pieces"
        settled_cost = fsum(problem.cost[n] for n in settled.values())
        answers: dict[Hashable, Incumbent] = {}
        for part, key in zip(parts, shapes, strict=True):
            if key in answers:
                continue
            answer = answers[key] = Incumbent(part)
            if self.solved.offered(key, answer):
                continue
            answer.offer(dag_greedy(part, self.preferred))
            known = {c: n for c, n in best.choice.items() if n in part.cost and c in part.nodes}
            answer.offer(extended(part, known))
            answer.prove(forced_bound(part))

        def offer_union() -> None:
            union = dict(settled)
            chosen = {key: places(answer.choice, answer.problem) for key, answer in answers.items()}
            for part, key in zip(parts, shapes, strict=True):
                union.update(placed(chosen[key], part))
            best.offer(problem.expanded(union))

        def offered(_cost: float, _bound: float) -> None:
            best.prove(settled_cost + fsum(answers[key].bound for key in shapes))
            if settled_cost + fsum(answers[key].cost for key in shapes) < best.cost * (1 - TOLERANCE):
                offer_union()

        sizes = {
            key: count * answers[key].problem.num_nodes
            for key, count in Counter(shapes).items()
            if not answers[key].proven
        }
        total = left = sum(sizes.values())
        for key, size in sizes.items():
            answer = answers[key]
            if size > _TOLD * total:
                answer.progress = offered
            with self.budget.share(size / left) as share:
                try:
                    improve(
                        answer.problem,
                        answer,
                        self.preferred,
                        share,
                        self.searching,
                        loops,
                        solved=self.solved,
                    )
                except KeyboardInterrupt:
                    share.interrupted = True
            left -= size
        offered(best.cost, best.bound)
        offer_union()  # it may cost less than its parts: what no root needs is dropped
        for key, answer in answers.items():
            self.solved.keep(key, answer)

    def solve_whole(self, reduced: Reduced, loops: Sequence[Loop]) -> tuple[Reduced | None, Sequence[Loop]]:
        """Solves a problem by the relaxation, and large ones by search and the integer program, too.

        Returns the rest of it and the loops that counted, if much of it has gone; None for the rest at the end.
        """
        best, budget = self.best, self.budget
        best.stage = "relaxation"
        ascent = Ascent(reduced.problem, reduced.forced)
        loops = remaining(loops, reduced)
        if not loops:
            with budget.share(_RELAXATION_SHARE) as share:
                ascended = ascent.run(reduced.problem.cost.__getitem__, best.cost, share)
            best.prove(ascended.bound)
            rest = self.rest(reduced, ascended.reduced_cost, ascended.bound)
            if rest is None or _shrunk(rest, reduced):
                return rest, ()
            if budget.exhausted:
                return None, ()
            loops = ascended.loops
        cutting = Cutting(formulate(reduced), ascent)
        cutting.add(loops, budget)
        going = True
        while going:
            best.stage = "relaxation"
            before = budget.work
            with budget.share(_RELAXATION_SHARE) as share:
                finished = cutting.run(best, share)
            self.ahead += before - budget.work
            rest = reduced
            if cutting.relaxed is not None:
                rest = self.rest(reduced, cutting.reduced_cost(cutting.relaxed), cutting.relaxed.bound)
            if rest is None or _shrunk(rest, reduced):
                return rest, [cut.loop for cut in cutting.tight]
            going = self.close(cutting, rest.problem.num_nodes, finished) and not budget.exhausted
        return None, ()

    def rest(self, reduced: Reduced, rising: Callable[[int], float], bound: float) -> Reduced | None:
        """The problem without e-nodes whose reduced cost closes the gap; None if that solves it."""
        rest = fixed(reduced, rising, bound, self.best.cost, self.preferred)
        if rest is None:
            self.best.prove(self.best.cost)
        return rest

    def close(self, cutting: Cutting, size: int, finished: bool) -> bool:
        """Closes the gap of a relaxation with ``size`` e-nodes by search and the integer program.

        Returns whether the relaxation is worth going on with: it is not finished, or a cheaper choice was found, with
        which more e-nodes can go.
        """
        best, relaxed = self.best, cutting.relaxed
        known = best.cost
        large = self.searching and size > _LARGE
        if (
            large
            and relaxed is not None
            and (finished or (known - best.bound < self.narrowed and self.ahead > 0))
        ):
            self.search_near(cutting, relaxed, finished)
        if best.cost < known or not finished:
            return True
        if cutting.separator.acyclic:  # SCIP is best at plain integer programs
            self.effort = max(self.effort, _LAST_EFFORT)
        while large and self.effort <= _LAST_EFFORT:
            if size > _HUGE and best.cost - best.bound > _WIDE * best.cost:
                self.effort = max(self.effort, _LAST_EFFORT)
            elif relaxed is not None:  # many programs are easy once the cuts are in
                self.solve_program(cutting, self.effort)
                if best.proven:
                    return False
            best.stage = "search"
            with self.budget.share(1.0 if relaxed is None else self.effort) as share:
                search(self.base, best, share, self.solve_part, self.seed)
            self.seed += 1
            if best.cost < known:
                break
            self.effort *= 2
        if relaxed is not None and best.cost >= known:
            self.solve_program(cutting, 1.0)
            return False
        return relaxed is not None

    def search_near(self, cutting: Cutting, relaxed: Relaxed, finished: bool) -> None:
        """Looks for better choices near the relaxation, and from there along orders."""
        best, problem = self.best, cutting.form.reduced.problem
        best.stage = "search"
        before, known, gap = self.budget.work, best.cost, best.cost - best.bound
        chosen = {n for n, i in cutting.form.node_col.items() if relaxed.x[i] > _CHOSEN}
        with self.budget.share(_NARROW_SHARE, most=before if finished else self.ahead) as share:
            narrow(problem, cutting.reduced_cost(relaxed), chosen, gap, best, share, self.solve_part)
            if best.cost < self.followed:
                follow(problem, best, share, self.solve_part, self.rng)
                self.followed = best.cost
        self.ahead -= before - self.budget.work
        self.narrowed = gap * (_NARROWER if best.cost < known else _MUCH_NARROWER)

    def solve_part(self, part: Problem, answer: Incumbent, budget: Budget) -> None:
        improve(part, answer, self.preferred, budget, searching=False, solved=self.solved)

    def solve_program(self, cutting: Cutting, effort: float) -> None:
        self.best.stage = "program"
        with self.budget.share(effort) as share:
            solve_mip(cutting.separator, cutting.tight, self.best, share)


def _repetitive(parts: Sequence[Problem], shapes: Sequence[Hashable]) -> bool:
    """Whether most e-nodes are in pieces of which there are others of the same shape."""
    different = {key: part.num_nodes for part, key in zip(parts, shapes, strict=True)}
    return sum(different.values()) <= _REPETITIVE * sum(part.num_nodes for part in parts)


def _shrunk(rest: Reduced, reduced: Reduced) -> bool:
    return rest.problem.num_nodes < _SHRINK * reduced.problem.num_nodes
