"""How far a replay has come that did not reach the second graph."""

from __future__ import annotations

from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.why.replay import Replay
from tensat_dl.why.shorten import Rerun


def furthest(replay: Replay) -> Graph:
    """The second graph in all places where it was found equal to the first, which is kept everywhere else.

    This may be asked of a replay that was interrupted: what it had begun and not finished does not count.
    """
    again = Rerun(replay)
    for k, a in enumerate(replay.applications):
        if again.applies(a):
            again.apply(a, k)
    ledger = again.ledger
    builder = GraphBuilder(replay.before.name, replay.before.opaque)
    for i in replay.before.inputs:
        n = replay.before.nodes[i]
        builder.add(n.op, (), n.attrs, n.types, n.name)
    there: dict[int, int] = {}  #: what is there of the second graph, by the ledger's class
    found: list[int | None] = []
    made: list[int] = []
    for n in replay.after.nodes:
        operands = [t for j in n.inputs if (t := found[j]) is not None]
        complete = len(operands) == len(n.inputs)
        found.append(ledger.lookup(n.op, n.attrs, operands) if complete else None)
        made.append(builder.add(n.op, [made[j] for j in n.inputs], n.attrs, n.types, n.name))
        if (term := found[-1]) is not None:
            there.setdefault(ledger.find(term), made[-1])
    kept: list[int] = []
    for i, n in enumerate(replay.before.nodes):
        c = ledger.find(again.of[replay.nodes[i]])
        own = builder.add(n.op, [kept[j] for j in n.inputs], n.attrs, n.types, n.name)
        kept.append(there.get(c, own))
    return builder.finish((name, kept[i]) for name, i in replay.before.outputs)
