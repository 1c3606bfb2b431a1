"""`discover`: from operators to a pack of rules, step by step.

Terms are enumerated in several small worlds, and those that compute the same are candidates. By size, the smallest
first, candidates that follow from the rules found so far are dropped, others are generalised, and what passes the
tests of `tensat-dl check` is a rule. At the end, rules that follow from the others are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.cost.model import CostModel
from tensat_dl.discover.candidates import Equation, Tree
from tensat_dl.discover.corpus import Corpus
from tensat_dl.discover.generalise import General
from tensat_dl.discover.memo import (
    Memo,
    candidate_of,
    candidate_to_data,
    general_of,
    general_to_data,
    key_of,
)
from tensat_dl.discover.menu import Menu
from tensat_dl.discover.merges import merged
from tensat_dl.discover.pack import FoundRule, names
from tensat_dl.discover.saturate import chunks, operators
from tensat_dl.discover.saving import worth
from tensat_dl.discover.terms import World
from tensat_dl.discover.work import Derive, Examine, Explore, Generalise, answers, work_of
from tensat_dl.discover.worlds import Leaves, ResultTypes, worlds
from tensat_dl.discover.written import rewrites
from tensat_dl.jobs.job import Workers
from tensat_dl.jobs.run import Where
from tensat_dl.verify.rules.verdict import Verdict

#: After so many vain attempts at equations that differ in attributes alone, no more of them are tried.
VAIN = 2
#: Terms that are enumerated in a second, about; and how many seconds are too long.
TERMS_PER_SECOND = 10_000
TOO_LONG = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How far a discovery looks. ``size`` is the number of operators on each side, ``leaves`` that of variables.
    ``about`` are operators of which each rule that is written has to have one; none: any rule will do. Other rules
    are found, too, so that their instances are not taken for laws of these operators."""

    size: int = 3
    leaves: int = 4
    about: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Discovery:
    """The rules that were found, the most useful first, and how many candidates there were. ``dropped`` is the number
    of rules that followed from others; ``interrupted`` says that not everything was tried."""

    rules: tuple[FoundRule, ...]
    candidates: int
    dropped: int
    interrupted: bool


@dataclass
class _Discovery:
    """One discovery, as far as it has come."""

    typing: ResultTypes
    known: tuple[RewriteRule, ...]
    settings: Settings
    memo: Memo
    progress: Progress
    workers: Workers
    found: list[General] = field(default_factory=list)
    rules: list[RewriteRule] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    verdicts: dict[str, Verdict | None] = field(default_factory=dict)  #: by what a rule says
    candidates: int = 0
    vain: Counter[object] = field(default_factory=Counter)

    @property
    def menu(self) -> Menu:
        return self.typing.menu

    def explore(self) -> None:
        """Finds rules in all worlds. The largest are not tested yet: many of them are not needed."""
        self.progress.phase("enumerate")
        by_size: dict[int, list[Equation]] = defaultdict(list)
        for c in self._equations(worlds(self.typing, self.settings.leaves)):
            by_size[c.left.size + c.right.size].append(c)
        self.candidates = sum(map(len, by_size.values()))
        self.progress.phase("generalise")
        done = 0
        sizes = sorted(by_size)
        for size in sizes:
            left = sorted(by_size[size], key=lambda c: c.order)
            first = len(self.found)
            while left:
                left = self._underivable(left)
                batch = self._batch(left)
                taken = {c.key for c in batch}
                left = [c for c in left if c.key not in taken and self.vain[_form(c)] < VAIN]
                self._generalise(batch)
                self.progress.counting(done + len(by_size[size]) - len(left), self.candidates)
            done += len(by_size[size])
            if size != sizes[-1]:
                self._test(first)

    def _underivable(self, left: Sequence[Equation]) -> list[Equation]:
        """The candidates that do not follow from the rules found so far. Definitions of the operators of which laws
        are wanted count only with these laws: with rules of other operators they derive all there is to find."""
        about = self.settings.about
        rules = [r for r in self.rules if not _defines(r, about)]
        tasks = chunks(left, [*self._axioms(), *rules], self.menu.ops)
        if about:
            laws = [r for r in self.rules if about & _names(r.nodes)]
            tasks += chunks([c for c in left if about & operators(c)], [*self.known, *laws], self.menu.ops)
        derived = {c.key for answer in answers(self.workers, tasks) for c in answer}
        return [c for c in left if c.key not in derived]

    def _equations(self, leaves: Sequence[Leaves]) -> list[Equation]:
        tasks = [Explore(x, self.settings.size) for x in leaves]
        keys = [key_of("explore", x, self.settings.size) for x in leaves]
        left = [i for i, key in enumerate(keys) if key not in self.memo.known]
        left.sort(key=lambda i: (-len(leaves[i]), len(set(leaves[i]))))  # what takes longest is begun first
        count = len(tasks) - len(left)

        def done(i: int, answer: object) -> None:
            nonlocal count
            count += 1
            assert isinstance(answer, list)
            self.memo.note(keys[left[i]], [candidate_to_data(c) for c in answer])
            self.progress.counting(count, len(tasks))

        self.progress.counting(count, len(tasks))
        answers(self.workers, [tasks[i] for i in left], done)
        found: dict[object, Equation] = {}
        for key in keys:
            for data in self.memo.known[key]:
                c = candidate_of(data)
                found.setdefault(c.key, c)
        return list(found.values())

    def _batch(self, left: Sequence[Equation]) -> list[Equation]:
        """The first candidate about each set of operators: what it gives may derive the others."""
        first: dict[frozenset[str], Equation] = {}
        for c in left:
            if self.vain[_form(c)] < VAIN:
                first.setdefault(operators(c), c)
        return list(first.values())

    def _generalise(self, batch: Sequence[Equation]) -> None:
        """Adds the general forms of equations to the rules."""
        for c, g in zip(batch, self._general(batch), strict=True):
            text = "" if g is None else g.text("rule")
            if g is None or text in self.texts:
                self.vain[_form(c)] += 1
                continue
            self.texts.add(text)
            self.found.append(g)
            self.rules += rewrites(g.text(f"found-{len(self.found)}"), self.menu.ops)

    def _general(self, batch: Sequence[Equation], merge: bool = False) -> list[General | None]:
        keys = [key_of("merge" if merge else "general", candidate_to_data(c)) for c in batch]
        left = [i for i, key in enumerate(keys) if key not in self.memo.known]

        def done(i: int, answer: object) -> None:
            assert answer is None or isinstance(answer, General)
            self.memo.note(keys[left[i]], general_to_data(answer))

        answers(self.workers, [Generalise(batch[i], merge) for i in left], done)
        return [general_of(self.memo.known[key]) for key in keys]

    def _test(self, first: int) -> None:
        """Drops what fails the tests among the rules found since."""
        texts = [g.text(f"found-{i}") for i, g in enumerate(self.found)]
        declared = [rewrites(text, self.menu.ops) for text in texts]
        self._examine([r for rules in declared[first:] for r in rules])
        kept = [i for i, rules in enumerate(declared) if i < first or self.passed(rules)]
        self.found = [self.found[i] for i in kept]
        self.rules = [r for i in kept for r in declared[i]]

    def _examine(self, rules: Sequence[RewriteRule]) -> None:
        """Adds the verdicts on rules as they come; None for one that takes more memory than there is."""
        count = 0

        def done(i: int, answer: object) -> None:
            nonlocal count
            count += 1
            verdict = answer if isinstance(answer, Verdict) else None
            self.verdicts[rules[i].content] = verdict
            self.progress.checking(count, len(rules), rules[i].name, verdict.status if verdict else "")

        answers(self.workers, [Examine(r) for r in rules], done)

    def passed(self, rules: Sequence[RewriteRule]) -> list[Verdict]:
        """The verdicts on rules; empty if one of them has not passed the tests, or was not tested."""
        found = [self.verdicts.get(r.content) for r in rules]
        named = zip(rules, found, strict=True)
        own = [replace(v, rule=r.name) for r, v in named if v is not None and not v.failed]
        return own if len(own) == len(rules) else []

    def _axioms(self) -> list[RewriteRule]:
        """Known rules, without the definitions of the operators of which laws are wanted: all would follow."""
        defined = {f"{kind}-{op}" for kind in ("fuse", "unfuse") for op in self.settings.about}
        return [r for r in self.known if r.name not in defined]

    def needed(self) -> list[General]:
        """The rules that the others do not derive. Laws of an operator are derived from each other and from what is
        known, its definition included: no other rules are written. Those that fail the tests are found out last."""
        while True:
            self.progress.phase("reduce")
            kept = self._underived(self.wanted(), self.known)
            declared = [rewrites(g.text(f"found-{i}"), self.menu.ops) for i, g in enumerate(kept)]
            self._examine([r for rules in declared for r in rules if r.content not in self.verdicts])
            failed = [g for g, rules in zip(kept, declared, strict=True) if not self.passed(rules)]
            if not failed:
                return kept
            self.found = [g for g in self.found if g not in failed]

    def merges(self, laws: Sequence[General]) -> list[General]:
        """Rules with two results that laws about concatenations are, for what matches them as it stands."""
        batch = [c for g in laws if (c := merged(g, self.menu.ops)) is not None]
        found = {g.text("rule"): g for g in self._general(batch, merge=True) if g is not None}
        declared = [rewrites(g.text("found"), self.menu.ops) for g in found.values()]
        self._examine([r for rules in declared for r in rules])
        return [g for g, rules in zip(found.values(), declared, strict=True) if self.passed(rules)]

    def wanted(self) -> list[General]:
        """The rules about the operators of which laws are wanted."""
        about = self.settings.about
        return [g for g in self.found if not about or about & operators(g.equation)]

    def _underived(self, found: Sequence[General], known: Sequence[RewriteRule]) -> list[General]:
        """Those that neither the others nor known rules derive. Of two that derive each other the larger goes."""
        left = list(range(len(found)))
        declared = [rewrites(g.text(f"found-{i}"), self.menu.ops) for i, g in enumerate(found)]
        derived = self._derivations([(i, left) for i in left], declared, known)
        order = sorted(left, key=lambda i: found[i].equation.order, reverse=True)
        for i in order:
            takes = derived[i]
            if takes is None:
                continue
            others = [k for k in left if k != i]
            names = {r.declared for k in others for r in declared[k]} | {r.declared for r in known}
            if not takes <= names:
                takes = self._derivations([(i, others)], declared, known)[i]
            if takes is not None:
                left = others
        return [found[i] for i in left]

    def _derivations(
        self,
        asked: Sequence[tuple[int, list[int]]],
        declared: Sequence[Sequence[RewriteRule]],
        known: Sequence[RewriteRule],
    ) -> dict[int, frozenset[str] | None]:
        keys = []
        tasks = []
        for i, among in asked:
            others = tuple(r for k in among if k != i for r in declared[k])
            keys.append(key_of("derive", declared[i][0].content, [r.content for r in (*others, *known)]))
            tasks.append((i, Derive(declared[i][0], (*others, *known))))
        left = [n for n, key in enumerate(keys) if key not in self.memo.known]
        count = len(tasks) - len(left)

        def done(n: int, answer: object) -> None:
            nonlocal count
            count += 1
            self.memo.note(keys[left[n]], None if answer is None else sorted(answer))  # type: ignore[call-overload]
            self.progress.counting(count, len(tasks))

        answers(self.workers, [tasks[n][1] for n in left], done)
        found = {}
        for (i, _), key in zip(tasks, keys, strict=True):
            names = self.memo.known[key]
            found[i] = None if names is None else frozenset(names)
        return found


def _names(nodes: Sequence[PatternNode]) -> frozenset[str]:
    return frozenset(n.op for n in nodes)


def _defines(rule: RewriteRule, about: frozenset[str]) -> bool:
    """Whether one side is one of these operators alone, and the other side has none of them."""
    sides = [side.nodes for side in (rule.source, rule.target) if about & _names(side.nodes)]
    return len(sides) == 1 and len(sides[0]) == 1


def discover(
    menu: Menu,
    known: Sequence[RewriteRule],
    settings: Settings,
    costs: CostModel,
    memo: Memo,
    where: Where,
    progress: Progress | None = None,
    corpus: Corpus | None = None,
) -> Discovery:
    """Finds rules over the operators of a menu that do not follow from ``known`` ones, those first that save most on
    the graphs of a corpus. Ctrl-C ends it with what was found and tested by then."""
    progress = progress or Progress()
    typing = ResultTypes(menu)
    check_effort(typing, settings)
    interrupted = False
    with where.workers(work_of(menu)) as workers:
        search = _Discovery(typing, tuple(known), settings, memo, progress, workers)
        kept: Sequence[General] = ()
        try:
            search.explore()
            kept = search.needed()
            kept = [*kept, *search.merges(kept)]
        except KeyboardInterrupt:
            interrupted = True  # what was tested by then is written, and nothing else is begun
            kept = kept or [g for g in search.wanted() if search.passed(rewrites(g.text("rule"), menu.ops))]
        worths = {g: worth(g, costs, corpus) for g in kept}
        ranked = sorted(kept, key=lambda g: (-worths[g].corpus, -worths[g].sides, g.equation.order))
    found = []
    for title, g in zip(names(ranked), ranked, strict=True):
        verdicts = search.passed(rewrites(g.text(title), menu.ops))
        found.append(FoundRule(title, g, tuple(verdicts), worths[g]))
    memo.write()
    laws = sum(g.arrow != "merge" for g in kept)
    return Discovery(tuple(found), search.candidates, len(search.found) - laws, interrupted)


def check_effort(typing: ResultTypes, settings: Settings) -> None:
    """Raises `TsrError` with an estimate for a size that would take too long."""
    if settings.size <= 3 and settings.leaves <= 5:
        return
    seconds = 0.0
    for leaves in worlds(typing, min(settings.leaves, 4)):
        world = World(typing.menu, leaves)
        counts = [len(leaves)]
        for size in (1, 2):
            world.grow(size)
            counts.append(len(world.terms))
        growth = max(2.0, counts[2] / max(1, counts[1])) * max(1, settings.leaves / 4)
        seconds += counts[2] * growth ** (settings.size - 2) / TERMS_PER_SECOND
    if seconds > TOO_LONG:
        hint = "choose a smaller --size, fewer --leaves or fewer operators"
        message = f"terms of {settings.size} operators on each side would take about {_duration(seconds)}"
        raise TsrError([Diagnostic(message, None, hint, path="--size")])


def _duration(seconds: float) -> str:
    for name, length in (("years", 365 * 24 * 3600.0), ("days", 24 * 3600.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {name}"
    return f"{seconds / 3600:.0f} hours"


def _form(c: Equation) -> object:
    """Equal for equations that differ in attributes alone."""

    def form(t: Tree) -> object:
        return t.variable if t.variable >= 0 else (t.op, *(form(a) for a in t.args))

    return form(c.left), form(c.right)
