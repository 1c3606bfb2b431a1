"""What an answer says about the members of groups: which of them a merge could make worth it.

The answer is asked for again at other prices. A member that it does not use costs as little as the best merge with it
could make it. A member of a large group that it uses merged costs as much as the member alone. If the answer stays as
it is, no merge that differs from its own by a member is worth a try. If not, those members are that it now uses or
does without. They go back to their own prices, and the answer is asked for again, until it stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import fsum

from tensat_dl.core.egraph import EGraph
from tensat_dl.engine.exploration import Exploration, Feedback
from tensat_dl.extract.extraction import TOLERANCE, Extraction
from tensat_dl.ops.table import OpTable


def feedback(
    exploration: Exploration,
    egraph: EGraph,
    answer: Extraction,
    ops: OpTable,
    extract: Callable[[EGraph, float], Extraction],
    work: float,
) -> Feedback:
    """The feedback of an answer from a priced e-graph. ``extract`` finds answers at other prices, which need no
    proof, with so much work at most; all together may take ``work``. Raises KeyboardInterrupt."""
    home = egraph.home[egraph.node_class].tolist()
    used = _chosen(answer, home)
    prices, spare = _other_prices(exploration, egraph, used, home, ops)
    priced = {home[n] for n in prices}
    wanted: set[int] = set()
    while prices and work > 0:
        cost = egraph.cost.copy()
        cost[list(prices)] = list(prices.values())
        other = extract(replace(egraph, cost=cost), work)
        if other.interrupted:
            raise KeyboardInterrupt
        work -= other.work
        if other.cost >= fsum(cost[n] for n in answer.choices.values()) * (1 - TOLERANCE):
            break
        now = _chosen(other, home)
        changed = {c for c in priced if used.get(c) != now.get(c)}
        if not changed:
            break
        wanted |= changed.difference(used)
        spare |= changed.intersection(used)
        priced -= changed
        prices = {n: price for n, price in prices.items() if home[n] in priced}
    handles = exploration.handles
    return Feedback(*(frozenset(handles[c] for c in found) for found in (used, wanted, spare)))


def _chosen(extraction: Extraction, home: Sequence[int]) -> dict[int, set[int]]:
    """The e-nodes of an answer, by their e-classes."""
    found = defaultdict[int, set[int]](set)
    for n in extraction.choices.values():
        found[home[n]].add(n)
    return dict(found)


def _other_prices(
    exploration: Exploration,
    egraph: EGraph,
    used: Mapping[int, set[int]],
    home: Sequence[int],
    ops: OpTable,
) -> tuple[dict[int, float], set[int]]:
    """The least that merges could make of members, by e-node, where that is another price than theirs; and the
    e-classes that are merged in the answer and computed alone as well."""
    number = {h: c for c, h in enumerate(exploration.handles)}
    members = defaultdict[int, list[int]](list)  # the e-nodes of each e-class, in all layouts
    for n, c in enumerate(home):
        members[c].append(n)
    prices: dict[int, float] = {}
    for h, saved in exploration.groups.savings.items():
        if h in number and number[h] not in used:
            prices |= {n: max(0.0, egraph.cost[n] - saved) for n in members[number[h]]}
    spare: set[int] = set()
    for product, shares in exploration.groups.shares.items():
        if number.get(product) not in used:
            continue
        whole = max(used[number[product]], key=lambda n: egraph.cost[n])
        prices[whole] = egraph.cost[whole]
        for c, share in ((number[h], share) for h, share in shares.items() if h in number):
            views = {n for n in members[c] if egraph.op[n] in ops and ops[egraph.op[n]].view}
            for n in members[c]:
                prices.pop(n, None)  # it is merged already
            if c in used and used[c] & views:
                prices |= {n: egraph.cost[n] + share for n in views}
                prices[whole] = max(0.0, prices[whole] - share)
            elif c in used:
                spare.add(c)
    return prices, spare
