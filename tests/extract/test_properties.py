"""The exact method on thousands of random e-graphs, against every choice and against the paper's program.

Small e-graphs are mostly solved by reductions, which would hide a fault of what comes after them. So there are
e-graphs made to need the rest, runs without the strongest reductions, and a count of what really ran.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest
from pyscipopt.scip import PY_SCIP_RESULT as SCIP_RESULT

from tensat_dl.core.egraph import EGraph
from tensat_dl.extract import api, cutting, exact, mip, reduce, relaxation
from tensat_dl.extract.api import extract
from tensat_dl.extract.ascent import Ascended, Ascent
from tensat_dl.extract.budget import Budget, ExtractLimits
from tensat_dl.extract.cutting import Cutting
from tensat_dl.extract.extraction import Extraction, ExtractionError
from tensat_dl.extract.formulation import formulate
from tensat_dl.extract.incumbent import Incumbent
from tensat_dl.extract.loops import LoopSeparator
from tensat_dl.extract.problem import Problem, derivation, from_egraph, topological
from tensat_dl.extract.small_parts import search

from .builders import (
    brute_force,
    egraph,
    layered_egraph,
    random_egraph,
    stacked_egraph,
    tangled_egraph,
    wild_egraph,
)

pytestmark = pytest.mark.sampled(4)


def wild(seeds: Iterable[int]) -> Iterator[EGraph]:
    return (wild_egraph(random.Random(seed)) for seed in seeds)


def tangled(seeds: Iterable[int]) -> Iterator[EGraph]:
    return (tangled_egraph(random.Random(seed), 7 + seed % 3) for seed in seeds)


def solve(graph: EGraph) -> Extraction:
    found = extract(graph)
    assert found.status == "optimal"
    assert found.bound == found.cost
    return found


def agree(graphs: Iterable[EGraph]) -> int:
    """Compares with brute force; the number of e-graphs whose roots have a derivation."""
    derived = 0
    for graph in graphs:
        expected = brute_force(graph)
        if expected is None:
            with pytest.raises(ExtractionError, match="has no finite derivation"):
                extract(graph)
        else:
            assert solve(graph).cost == pytest.approx(expected, rel=1e-9, abs=1e-12)
            derived += 1
    return derived


@pytest.mark.parametrize("block", range(20))
def test_any_small_e_graph(block: int) -> None:
    assert 40 < agree(wild(range(100 * block, 100 * block + 100))) < 95


@pytest.mark.parametrize("block", range(10))
def test_small_e_graphs_with_many_cycles(block: int) -> None:
    agree(tangled(range(100 * block, 100 * block + 100)))


@pytest.fixture
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly any reductions, a bad start, no ascent: the relaxation and the integer program have to do the work."""

    def first(problem: Problem, *_: object) -> Incumbent:
        best = Incumbent(problem)
        best.offer(derivation(problem))
        return best

    monkeypatch.setattr(reduce, "_undominated", lambda problem, c, candidates, *_: candidates)
    monkeypatch.setattr(reduce, "_drop_expensive", lambda *_: None)
    monkeypatch.setattr(api, "first_incumbent", first)
    monkeypatch.setattr(Ascent, "run", lambda *_: Ascended(0.0, [], {}))


@pytest.mark.usefixtures("weak")
@pytest.mark.parametrize("graphs", [wild, tangled])
def test_small_e_graphs_by_the_solver_alone(graphs: Callable[[Iterable[int]], Iterator[EGraph]]) -> None:
    agree(graphs(range(5_000, 5_500)))


def watch(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, seen: Callable[..., dict[str, bool]]
) -> Counter[str]:
    """Counts the calls of a function by what ``seen`` makes of its arguments and its result."""
    ran: Counter[str] = Counter()
    original = getattr(owner, name)

    def watched(*args: object, **options: object) -> object:
        result = original(*args, **options)
        ran.update(what for what, happened in seen(args, result).items() if happened)
        return result

    monkeypatch.setattr(owner, name, watched)
    return ran


def solver_alone(
    problem: Problem, best: Incumbent, preferred: frozenset[int], budget: Budget, **_: object
) -> None:
    """The integer program without any loop cuts at its start."""
    reduced = reduce.reduce(problem, best.cost, preferred)
    if reduced is None:
        best.prove(best.cost)
    else:
        mip.solve_mip(LoopSeparator(formulate(reduced)), [], best, budget)


@pytest.mark.usefixtures("weak")
@pytest.mark.parametrize("separating", [True, False])
def test_small_e_graphs_by_the_integer_program_alone(
    separating: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without cuts for its relaxations, what it cuts off are integral points with a cycle."""
    monkeypatch.setattr(api, "improve", solver_alone)
    if not separating:
        monkeypatch.setattr(mip._LoopHandler, "conssepalp", lambda *_: {"result": SCIP_RESULT.DIDNOTFIND})
    enforced = watch(
        *(monkeypatch, mip._LoopHandler, "_enforce"),
        lambda _, done: {"cut": done["result"] == SCIP_RESULT.CONSADDED},
    )
    agree(tangled(range(6_000, 6_150)))
    agree(wild(range(6_000, 6_150)))
    assert separating or enforced["cut"]


@pytest.mark.usefixtures("weak")
def test_what_is_symmetric_but_for_cycles_is_not_taken_for_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both roots save the same by class 2, which is derived from either. But the one that it is derived from cannot
    use it, and only that tells them apart: no row of the program does, the roots being there anyway."""
    monkeypatch.setattr(api, "improve", solver_alone)
    first, second, free = [(2, []), (0, [2])], [(6, []), (5, [2])], [(0, [0]), (0, [1])]
    assert agree([egraph([first, second, free], [0, 1])]) == 1


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda rng: layered_egraph(rng.randrange(10**6), 30, back=rng.choice((0.0, 0.1, 0.3))), 100),
        (lambda rng: random_egraph(rng, 40, 4, 0.3), 60),
        (lambda rng: tangled_egraph(rng, 12), 40),
    ],
    ids=["layered", "random", "tangled"],
)
def test_medium_e_graphs_by_the_papers_program(make: Callable[[random.Random], EGraph], count: int) -> None:
    for seed in range(count):
        graph = make(random.Random(seed))
        found, paper = solve(graph), extract(graph, "ilp-int", ExtractLimits(work=1e9))
        assert paper.status == "optimal"
        assert found.cost == pytest.approx(paper.cost, rel=1e-8)


def test_large_problems_are_narrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one round of cuts at a time, and rows that come one by one."""
    monkeypatch.setattr(exact, "_LARGE", 0)
    monkeypatch.setattr(exact, "_HUGE", 0)
    monkeypatch.setattr(cutting, "_ROUNDS", 1)
    monkeypatch.setattr(relaxation, "_ROUNDS", 1)
    monkeypatch.setattr(relaxation, "_ROWS_PER_ROUND", 1)
    monkeypatch.setattr(Ascent, "run", lambda *_: Ascended(0.0, [], {}))
    narrowed = watch(monkeypatch, exact, "narrow", lambda *_: {"narrow": True})
    for seed in range(60):
        rng = random.Random(seed)
        graph = layered_egraph(seed, 30, back=0.1) if seed % 2 else tangled_egraph(rng, 12)
        found, paper = solve(graph), extract(graph, "ilp-int", ExtractLimits(work=1e9))
        assert found.cost == pytest.approx(paper.cost, rel=1e-8)
    assert narrowed["narrow"] >= 10


def test_search_finds_what_a_bad_start_lacks() -> None:
    """From the first derivation that there is, by small problems alone."""

    def solver(part: Problem, answer: Incumbent, share: Budget) -> bool:
        exact.improve(part, answer, frozenset(), share, searching=False)
        return answer.proven

    best_found = 0
    for seed in range(10):
        graph = layered_egraph(seed, 60, back=0.1)
        problem = from_egraph(graph)
        best = Incumbent(problem)
        best.offer(derivation(problem))
        start = best.cost
        search(problem, best, Budget.of(ExtractLimits()), solver)
        assert best.cost < start
        assert topological(problem, best.choice) is not None
        assert best.cost == pytest.approx(problem.total(best.choice))
        best_found += best.cost == pytest.approx(solve(graph).cost)
    assert best_found >= 8


def test_every_stage_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the comparisons above are worth: none of the steps was idle on e-graphs like theirs."""

    ascended = watch(monkeypatch, Ascent, "run", lambda _, found: {"cuts": bool(found.loops)})
    separated = watch(monkeypatch, Cutting, "run", lambda args, _: {"cuts": bool(args[0].cuts)})
    solved = watch(monkeypatch, exact._Improvement, "solve_apart", lambda *_: {"apart": True})
    fixed = watch(
        *(monkeypatch, exact, "fixed"),
        lambda args, rest: {"fewer": rest is not None and rest.problem.num_nodes < args[0].problem.num_nodes},
    )
    carried = watch(monkeypatch, exact, "remaining", lambda args, found: {"loops": bool(args[0] and found)})
    tried = watch(monkeypatch, exact, "solve_mip", lambda *_: {"mip": True})
    checked = watch(
        *(monkeypatch, mip._LoopHandler, "conscheck"),
        lambda _, done: {"cyclic": done["result"] == SCIP_RESULT.INFEASIBLE},
    )
    cut = watch(
        *(monkeypatch, mip._LoopHandler, "conssepalp"),
        lambda _, done: {"cuts": done["result"] == SCIP_RESULT.SEPARATED},
    )
    agree(tangled(range(400)))
    agree(stacked_egraph([random.Random(seed)] * 2, 5) for seed in range(50))
    for seed in range(60):
        solve(layered_egraph(seed, 45, back=0.3))
    for counts, what, least in [
        (ascended, "cuts", 100),
        (separated, "cuts", 50),
        (solved, "apart", 10),
        (fixed, "fewer", 10),
        (carried, "loops", 10),
        (tried, "mip", 10),
        (checked, "cyclic", 1),
        (cut, "cuts", 1),
    ]:
        assert counts[what] >= least, (what, counts)
