"""The search for a cheaper graph: rounds from each answer on, until none gains anything.

A group rule merges no products of a merge, and fusion keeps the most promising chains of a class only. So an answer
that is explored by itself can lead to a cheaper one. The search ends when no stage gains anything from its answer. To
search the answer again would repeat these last rounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Exploration, History, Iteration, Stop
from tensat_dl.engine.explore import ExplorationError
from tensat_dl.extract.extraction import TOLERANCE
from tensat_dl.run.beginning import Beginning, EqualGraph, Setup, beginning
from tensat_dl.run.search import Answered, Found, Reached, Round, Search
from tensat_dl.run.stages import Stage
from tensat_dl.why.steps import INTERRUPTED, Explained, Explanation, NoWay, missing

#: At these limits the search ends. At the others an exploration ends, and its answer begins the next round.
_FINAL: dict[Stop, str] = {
    "time": "the time limit ended the search",
    "memory": "the memory limit ended the search",
    "interrupted": "Ctrl-C ended the search",
}
_NO_TIME = "the time limit of extraction ended the search"


@dataclass(frozen=True, slots=True)
class Way:
    """A graph, and the rounds that led to it: each begins with the answer of the one before."""

    known: EqualGraph
    rounds: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a search: the rounds that led to its answer; if no round gained anything, the first with all
    rules, and the answer is the input.

    ``gained`` is the number of rounds that led to the answer, ``stops`` tells for each of all rounds why its
    exploration ended. ``ended`` says what ended the search before a round gained nothing, if something did, and
    ``tried`` whether a round had all rules and settings.
    """

    answer: EqualGraph
    rounds: tuple[Found, ...]
    gained: int
    stops: tuple[Stop, ...]
    ended: str
    tried: bool
    search: Search

    @property
    def last(self) -> Found:
        """The round that the answer is from."""
        return self.rounds[-1]

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        """The iterations of the rounds that led to the answer."""
        return tuple(it for found in self.rounds for it in found.exploration.iterations)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.ended == _FINAL["interrupted"]


def search(
    begun: Beginning,
    setup: Setup,
    progress: Progress,
    past: bool = False,
    answered: Answered | None = None,
) -> Searched:
    """The cheapest graph that rounds from a graph on lead to; with what led to it, if its ``past`` is asked for. Its
    worker is gone then.

    Ctrl-C ends the phase that is running, and the best answer until then is returned. Whoever is to know of answers
    on the way is told (``answered``).
    """
    rounds = _Rounds(begun, Search(setup, progress, answered=answered), past)
    way = rounds.answer(Way(begun.start))
    begun.worker.dismiss()
    assert rounds.first is not None
    return Searched(
        way.known,
        way.rounds or (rounds.first,),
        len(way.rounds),
        tuple(rounds.stops),
        rounds.ended,
        rounds.tried,
        rounds.search,
    )


def one_round(graph: Graph, rules: Sequence[RewriteRule], setup: Setup, progress: Progress) -> Found:
    """The answer of a single round with all settings, for comparisons of settings."""
    with beginning(graph, rules, setup, progress, single=True) as begun:
        state = Search(setup, progress, single=True)
        return Round(state, begun.worker, begun.stages.whole, begun.start, (begun.start,)).run()


class _Rounds:
    """The rounds of a search."""

    def __init__(self, begun: Beginning, search: Search, past: bool) -> None:
        self.worker = begun.worker
        self.search = search
        self.stages = begun.stages
        self.past = past
        self.stops: list[Stop] = []
        self.ended = ""
        self.first: Found | None = None  #: the first round of the whole stage, until then the first of all
        self.at: Way | None = None  #: the beginning of the last round
        self.tried = False  #: whether the whole stage had a round
        self._known: dict[Hashable, Way] = {}
        self._begun: list[
            tuple[Stage, Way]
        ] = []  #: stages whose stages below are searched, from the same start
        self._ahead: dict[Hashable, Way] = {}  #: the answers of rounds that come later, by stage and start
        self._last: dict[bool, Found] = {}  #: what the last round found, by whether it was fusing

    def answer(self, start: Way) -> Way:
        """The best answer from a start. The time that rounds leave for extraction goes into the e-graph that the
        answer is from: for a cheaper answer, from which rounds go on, or for a proof."""
        search, whole = self.search, self.stages.whole
        way = self.best(whole, start)
        while search.setup.method == "exact" and search.extract_limits.seconds and not self.interrupted:
            assert self.first is not None
            last = way.rounds[-1] if way.rounds else self.first
            if last.extraction.status == "optimal":
                break
            extraction = search.extracted(last.layouts, [way.known.graph], search.extract_limits)
            if extraction.interrupted:
                self.ended = _FINAL["interrupted"]
            same = extraction.cost >= last.extraction.cost * (1 - TOLERANCE)
            last = replace(last, extraction=extraction)
            if not way.rounds:
                self.first = last
            other = Way(search.known(*last.rebuilt(extraction)), (*way.rounds[:-1], last))
            if self._cheaper(way, other) is way:
                return replace(way, rounds=other.rounds) if way.rounds and same else way
            if not search.extract_limits.seconds:
                self.ended = self.ended or _NO_TIME
            way = other if self.ended else self.best(whole, other)
        return way

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.ended == _FINAL["interrupted"]

    def best(self, stage: Stage, start: Way) -> Way:
        """The best answer from a start: neither the stage nor one below gains anything from it. It costs no more than
        the best answer of each stage below."""
        key = _key(stage, start)
        if key not in self._known:
            best = start
            while not self.ended:
                now = best
                self._begun.append((stage, now))
                for part in self.stages.below(stage) if self.search.setup.method == "exact" else ():
                    best = self._cheaper(best, self.best(part, now))
                self._begun.pop()
                if not self.ended:
                    best = self._cheaper(best, self._round(stage, now, best))
                if best is now:
                    break
            self._known[key] = self._known[_key(stage, best)] = best
        return self._known[key]

    def _round(self, stage: Stage, start: Way, best: Way) -> Way:
        """The answer of one round. Stages above that begin with the same graph take their turn ahead of time, while
        the e-graph is there that theirs grows from."""
        if (key := _key(stage, start)) in self._ahead:
            return self._ahead.pop(key)
        way = self._new_round(stage, start, best)
        best = self._cheaper(best, way)
        for above, begun in reversed(self._begun):
            if (key := _key(above, start)) in self._ahead:
                continue
            asked = above.start(start.known.apart, self.search.setup.limits)
            if self.ended or begun is not start or not self.worker.goes_on(asked):
                break
            self._ahead[key] = self._new_round(above, start, best)
            best = self._cheaper(best, self._ahead[key])
        return way

    def _new_round(self, stage: Stage, start: Way, best: Way) -> Way:
        """The answer of one round."""
        search = self.search
        self.at = start
        known = (start.known,) if best is start else (start.known, best.known)
        try:
            found = Round(search, self.worker, stage, start.known, known, self._last.get(stage.fusing)).run()
        except (ExplorationError, KeyboardInterrupt) as e:  # before it had anything
            if self.first is None or search.goal is not None:
                raise
            self.ended = _FINAL["interrupted" if isinstance(e, KeyboardInterrupt) else e.stop]
            return start
        self._last = {stage.fusing: found}
        self.stops.append(found.exploration.stop)
        if found.interrupted or found.extraction.interrupted:
            self.ended = _FINAL["interrupted"]
        else:
            self.ended = _FINAL.get(found.exploration.stop, "")
        if search.setup.method != "exact":
            self.ended = self.ended or "only exact extraction goes on from its answer"
        if search.extract_limits.seconds == 0:
            self.ended = self.ended or _NO_TIME
        way = Way(search.known(*found.rebuilt(found.extraction)))
        whole = stage == self.stages.whole
        found = replace(found, whole=whole)
        first = self.first is None or (whole and not self.tried)
        if self.past and (first or self._cheaper(best, way) is way):
            found = self._with_past(found)
        if first:
            self.first, self.tried = found, whole
        return replace(way, rounds=(*start.rounds, found))

    def _with_past(self, found: Found) -> Found:
        """A round with what led to its e-graph."""
        assert self.worker.latest is not None
        try:
            return replace(found, past=(self.worker.latest, self.worker.history()))
        except KeyboardInterrupt:
            if self.search.goal is not None:
                raise
            self.ended = _FINAL["interrupted"]
            return replace(found, interrupted=True)

    def _cheaper(self, a: Way, b: Way) -> Way:
        """The second, if it costs less than the first."""
        x, y = (self.search.priced(w.known.graph).total for w in (a, b))
        return b if y < x * (1 - TOLERANCE) else a


def _key(stage: Stage, way: Way) -> Hashable:
    return stage, way.known.graph.nodes, way.known.graph.outputs


# ---- explained -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leg:
    """Two graphs of one e-graph, and how that was explored; None if that is not known."""

    before: Graph
    after: Graph
    past: tuple[Exploration, History] | None


def legs(rounds: Sequence[Found], last: Graph) -> list[Leg]:
    """The parts of the way through some rounds, to the ``last`` graph, which the last of their e-graphs has."""
    graphs = [*(found.start.apart for found in rounds), last]
    return [Leg(a, b, found.past) for found, (a, b) in zip(rounds, pairwise(graphs), strict=True)]


def steps_along(
    way: Sequence[Leg], rules: Sequence[RewriteRule], model: CostModel, progress: Progress, seed: int = 0
) -> Explanation:
    """The steps from each graph of a way to the next; up to the first that they do not reach. Raises `NoWay`."""
    from tensat_dl.why.way import way_between  # few runs are explained, and it has parts of the engine

    steps: tuple[Explained, ...] = ()
    for leg in way:
        if not missing(leg.after, leg.before):
            continue
        if leg.past is None:
            return Explanation(steps, INTERRUPTED, True)
        found = way_between(leg.before, leg.after, rules, model, *leg.past, progress, seed)
        steps += found.steps
        if found.unfinished or found.interrupted:
            return replace(found, steps=steps)
    return Explanation(steps)


def search_again(
    before: Graph, after: Graph, rules: Sequence[RewriteRule], setup: Setup, progress: Progress
) -> Explanation:
    """The steps from ``before`` to ``after``, which a run with these rules and this setup found.

    If searching again does not lead to the second graph, or Ctrl-C ends it early, there are steps to as much of the
    graph as was found. Raises `NoWay` if the two cannot be compared at all.
    """
    state = Search(setup, progress)
    apart = [state.known(graph, ("",) * len(graph.nodes)).apart for graph in (before, after)]
    state.goal = after = aligned(apart[1], apart[0])
    if not missing(after, apart[0]):
        return Explanation(())
    interrupted = False
    with beginning(before, rules, setup, progress) as begun:
        rounds = _Rounds(begun, state, past=True)
        way, worker = Way(begun.start), begun.worker
        try:
            rounds.answer(way)
            assert rounds.first is not None
            past = rounds.first.past or (rounds.first.exploration, History())
        except Reached as reached:
            assert rounds.at is not None
            way = rounds.at
            try:
                past = reached.exploration, worker.history()
            except KeyboardInterrupt:
                past, interrupted = (reached.exploration, History()), True
        except KeyboardInterrupt:
            if worker.latest is None or rounds.at is None:
                raise
            way, past, interrupted = rounds.at, (worker.latest, History()), True
    interrupted |= past[0].stop == "interrupted"
    through = [*legs(way.rounds, way.known.apart), Leg(way.known.apart, after, past)]
    found = steps_along(through, rules, rounds.search.model, progress)
    return replace(found, interrupted=interrupted or found.interrupted)


def aligned(after: Graph, before: Graph) -> Graph:
    """The second graph with the names that inputs have in the first: written as .tsr, names may have changed."""
    if len(after.inputs) != len(before.inputs) or len(after.outputs) != len(before.outputs):
        counts = (len(g.inputs) for g in (before, after)), (len(g.outputs) for g in (before, after))
        (i, j), (k, m) = counts
        raise NoWay(f"the original has {i} inputs and {k} outputs, the optimized graph {j} and {m}")
    nodes = list(after.nodes)
    for i, j in zip(after.inputs, before.inputs, strict=True):
        if nodes[i].types != before.nodes[j].types:
            raise NoWay(f"input {before.nodes[j].attr('name')} has another type in the optimized graph")
        nodes[i] = before.nodes[j]
    outputs = zip(before.outputs, after.outputs, strict=True)
    return replace(after, nodes=tuple(nodes), outputs=tuple((name, j) for (name, _), (_, j) in outputs))
