"""Leaves out applications that a chain does not need.

The first way that was found is seldom the shortest. So whole rules are left out in turn, and then single
applications; if the outputs are still equal, they stay out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensat_dl.core.egraph import located
from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.why.ledger import SOURCE, Ledger
from tensat_dl.why.replay import Application, Replay

#: Applications that are tried at most: each try goes through all of those that are left.
MAX_TRIES = 2_000


def shorter(replay: Replay) -> Iterator[list[Application]]:
    """Applications that are enough to make the outputs equal, in order: each time fewer applications and rules
    together. Of the last ones none can be left out alone."""
    least: int | None = None
    for way in _ways(replay):
        effort = len(way) + len({a.rule for a in way})
        if least is None or effort < least:
            least = effort
            yield way


def _ways(replay: Replay) -> Iterator[list[Application]]:
    """From few rules, and from all of them: either can lead to the shorter way."""
    few_rules = list(replay.applications)
    for rule in [name for name, _ in Counter(a.rule for a in few_rules).most_common()]:
        without = [a for a in few_rules if a.rule != rule]
        if (enough := _enough(replay, without)) is not None:
            few_rules = without
            yield enough
    for start in (few_rules, replay.applications):
        yield from _fewer(replay, start)


def _fewer(replay: Replay, applications: Sequence[Application]) -> Iterator[list[Application]]:
    """The applications that are needed, then without those that can be left out one by one, the last first."""
    enough = _enough(replay, applications)
    assert enough is not None, "the applications are enough"
    yield enough
    for a in reversed(enough[-MAX_TRIES:]):
        if a in enough and (less := _enough(replay, [b for b in enough if b is not a])) is not None:
            enough = less
            yield enough


class Rerun:
    """A ledger that repeats some applications of another ledger. ``of`` maps the other's nodes to its own."""

    def __init__(self, replay: Replay) -> None:
        self.old = replay.ledger
        self.ledger = Ledger(replay.known.types)
        self.of: dict[int, int] = {}
        for n in replay.nodes:
            self._copy(n, SOURCE)

    def _copy(self, n: int, maker: int) -> int:
        """Adds a node whose operands are there."""
        if n not in self.of:
            old = self.old
            operands = tuple(self.of[k] for k in old.operands[n])
            self.of[n] = self.ledger.add(old.op[n], old.attrs[n], operands, old.label[n], maker)
        return self.of[n]

    def applies(self, a: Application) -> bool:
        """Whether all that an application needs is there."""
        find, of = self.ledger.find, self.of
        return all(n in of for n in a.names.values()) and all(find(of[x]) == find(of[y]) for x, y in a.equal)

    def translated(self, a: Application) -> Application:
        """The application in this ledger, what it builds not yet included."""
        of = self.of
        return replace(
            a,
            names={name: of[n] for name, n in a.names.items()},
            source=tuple(of[n] for n in a.source),
            equal=tuple((of[x], of[y]) for x, y in a.equal),
        )

    def apply(self, a: Application, number: int) -> Application:
        """Applies what `applies`; the application in this ledger."""
        here = self.translated(a)
        built = {name: self._copy(n, number) for name, n in a.built.items()}
        outputs = tuple((self.of[s], self.of[t]) for s, t in a.outputs)
        for s, t in outputs:
            self.ledger.union(s, t, number)
        return replace(here, built=built, outputs=outputs)


def _enough(replay: Replay, applications: Sequence[Application]) -> list[Application] | None:
    """The applications that are needed if there are no others; None if the outputs are not equal then."""
    again = Rerun(replay)
    done: list[Application] = []
    mine: list[Application] = []
    for a in applications:
        if again.applies(a):
            mine.append(again.apply(a, len(done)))
            done.append(a)
    found = replay.needed(again.ledger, [again.of[n] for n in replay.nodes], mine)
    return None if found is None else [done[k] for k in found]


def furthest(replay: Replay) -> Graph:
    """The second graph in all places where it was found equal to the first, which is kept everywhere else.

    The replay may have been interrupted: unfinished work does not count.
    """
    again = Rerun(replay)
    for k, a in enumerate(replay.applications):
        if again.applies(a):
            again.apply(a, k)
    ledger = again.ledger
    builder = GraphBuilder(replay.before.name, replay.before.opaque)
    for i in replay.before.inputs:
        builder.copy(replay.before.nodes[i])
    there: dict[int, int] = {}  #: what is there of the second graph, by the ledger's class
    made: list[int] = []
    for n, term in zip(replay.after.nodes, located(replay.after, ledger.lookup), strict=True):
        made.append(builder.copy(n, [made[j] for j in n.inputs]))
        if term is not None:
            there.setdefault(ledger.find(term), made[-1])
    kept: list[int] = []
    for i, n in enumerate(replay.before.nodes):
        c = ledger.find(again.of[replay.nodes[i]])
        own = builder.copy(n, [kept[j] for j in n.inputs])
        kept.append(there.get(c, own))
    return builder.finish((name, kept[i]) for name, i in replay.before.outputs)
