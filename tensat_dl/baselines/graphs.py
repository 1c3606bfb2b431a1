"""A graph that is rewritten, and what it would cost after a substitution.

A substitution puts nodes in the places of others. Everything that reads those stays what it is, but for its
operands. So the cost after it is the cost before, without the nodes that nothing reads any more, and with new ones;
and the hash of the graph after it is made of the hashes of the nodes above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import fsum

from tensat_dl.baselines.costs import Costs, Patched
from tensat_dl.baselines.rewriting import Substitution
from tensat_dl.baselines.store import NodeStore


@dataclass(frozen=True, slots=True)
class Priced:
    """A graph after a substitution: its cost in milliseconds, and the hashes of its outputs."""

    cost: float
    hash: tuple[int, ...]


class Current:
    """A graph of a search, with what is asked for at each of its substitutions."""

    def __init__(self, store: NodeStore, costs: Costs, outputs: tuple[int, ...]) -> None:
        self.store, self.costs, self.outputs = store, costs, outputs
        self.nodes = store.below(outputs)
        self._there = frozenset(self.nodes)
        self._readers = Counter(k for n in self.nodes for k in store.operands[n])
        self._readers.update(outputs)
        self._local = fsum(map(costs.local, self.nodes))
        self.cost = self._local + costs.of(Patched(self._there, outputs, {}, frozenset()))
        self.hash = tuple(store.hash[o] for o in outputs)

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {n: [] for n in self.nodes}
        for n in self.nodes:
            for k in set(self.store.operands[n]):
                found[k].append(n)
        return found

    def after(self, sub: Substitution, below: float) -> Priced | None:
        """The graph after a substitution, if it costs less than that, and if it has no cycle."""
        store, costs = self.store, self.costs
        instead = {s: t for s, t in sub.outputs if s != t}
        if self._entangled(sub, instead) or not self._there.isdisjoint(instead.values()):
            # Nodes above may be equal afterwards, or what replaces a node needs another that is replaced.
            outputs = self.outputs_after(sub)
            if outputs is None:
                return None
            other = Current(store, costs, outputs)
            return Priced(other.cost, other.hash) if other.cost < below else None
        added = self._added(instead)
        dead = self._dead(instead, added)
        local = self._local + fsum(map(costs.local, added)) - fsum(map(costs.local, dead))
        if local >= below:  # what depends on the graph is paid on top of that
            return None
        shape = Patched(
            frozenset((self._there | added) - dead),
            tuple(instead.get(o, o) for o in self.outputs),
            instead,
            frozenset(added),
        )
        cost = local + costs.of(shape)
        return Priced(cost, self._hash(instead)) if cost < below else None

    def outputs_after(self, sub: Substitution) -> tuple[int, ...] | None:
        """The graph after a substitution, in the store; None if it would be cyclic."""
        store = self.store
        instead = {s: t for s, t in sub.outputs if s != t}
        done: dict[int, int] = {}
        if not self._entangled(sub, instead):
            first = min(instead)
            done = dict(instead)
            for n in self.nodes:
                if n > first and n not in done and any(k in done for k in store.operands[n]):
                    done[n] = self._with(n, [done.get(k, k) for k in store.operands[n]])
            return tuple(done.get(o, o) for o in self.outputs)
        # What a target reads directly is what the source had there; further below it is what stands there afterwards.
        made = set(sub.made.values()) - self._there
        begun: set[tuple[int, bool]] = set()
        new: dict[tuple[int, bool], int] = {}
        stack = [(o, False) for o in self.outputs]
        while stack:
            key = stack[-1]
            if key in new:
                stack.pop()
                continue
            n, old = key
            if not old and n in instead:
                wanted = [(instead[n], instead[n] not in made)]
                operands = []
            else:
                operands = [(k, n in made and k in instead) for k in store.operands[n]]
                wanted = operands
            missing = [k for k in wanted if k not in new]
            if not missing:
                new[key] = (
                    new[wanted[0]] if not operands and wanted else self._with(n, [new[k] for k in operands])
                )
                stack.pop()
            elif key in begun:
                return None
            else:
                begun.add(key)
                stack += missing
        return tuple(new[o, False] for o in self.outputs)

    def _with(self, n: int, operands: list[int]) -> int:
        store = self.store
        known = store.names[n], store.origin[n], store.part[n]
        return store.add(store.op[n], store.attrs[n], tuple(operands), store.outs[n], *known)

    def _entangled(self, sub: Substitution, instead: Mapping[int, int]) -> bool:
        """Whether the rule's tensors, but for those that it replaces, are computed from what it replaces."""
        if len(instead) < 2:
            return False
        store, depth = self.store, self.store.depth
        lowest = min(depth[s] for s in instead)
        inner = set(sub.match.nodes.values())
        stack = [c for c in sub.match.tensors.values() if c not in inner and c not in store.weights]
        stack += [k for s in instead for k in store.operands[s] if k in inner]
        seen = set(stack)
        while stack:
            n = stack.pop()
            if n in instead:
                return True
            if depth[n] > lowest:
                for k in store.operands[n]:
                    if k not in seen:
                        seen.add(k)
                        stack.append(k)
        return False

    def _added(self, instead: Mapping[int, int]) -> set[int]:
        found: set[int] = set()
        stack = list(instead.values())
        while stack:
            n = stack.pop()
            if n not in self._there and n not in found:
                found.add(n)
                stack += self.store.operands[n]
        return found

    def _dead(self, instead: Mapping[int, int], added: set[int]) -> set[int]:
        """The nodes that nothing reads once others stand ``instead`` of some."""
        store = self.store
        readers = Counter(k for n in added for k in store.operands[n])
        # The nodes that are replaced are read by what was added, and by nothing else.
        left = {s: readers[s] for s in instead}
        dead: set[int] = set()
        stack = [s for s in instead if not left[s]]
        while stack:
            n = stack.pop()
            dead.add(n)
            for k in store.operands[n]:
                if k not in left:
                    left[k] = self._readers[k] + readers[k]
                if k in instead:
                    continue  # it was not counted as read by this
                left[k] -= 1
                if not left[k]:
                    stack.append(k)
        return dead

    def _hash(self, instead: Mapping[int, int]) -> tuple[int, ...]:
        """The hashes of the outputs with other nodes in the places of some."""
        store = self.store
        hashes = {s: store.hash[t] for s, t in instead.items()}
        above: set[int] = set()
        stack = list(instead)
        while stack:
            for u in self._users[stack.pop()]:
                if u not in above:
                    above.add(u)
                    stack.append(u)
        for n in sorted(above):
            if n not in hashes:
                hashes[n] = store.hashed(n, [hashes.get(k, store.hash[k]) for k in store.operands[n]])
        return tuple(hashes.get(o, store.hash[o]) for o in self.outputs)
