"""The rules of an exploration that e-nodes may match, compiled for the e-nodes that there are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.naming import Store
from tensat_dl.engine.reader import EngineReader


class ReadyRules:
    """The chosen rules, and the list rules among them for each length that e-nodes have."""

    def __init__(self, store: Store, reader: EngineReader) -> None:
        self._store = store
        self._reader = reader
        self._chosen: frozenset[str] = frozenset()
        self.by_kind: dict[str, list[RewriteRule]] = {}

    def choose(self, rules: Iterable[RewriteRule]) -> None:
        """These rules, of those that the program has."""
        self._chosen = frozenset(r.name for r in rules)
        self._sort()

    def match_lists(self) -> None:
        """Adds the rules for lists of as many operands as e-nodes have now."""
        self._reader.current()
        if self._store.program.match_lists(self._reader.alike):
            self._sort()

    def among(self, rules: Sequence[RewriteRule]) -> list[RewriteRule]:
        """The rules that e-nodes may match."""
        self._reader.current()
        return [r for r in rules if self._store.program.may_match(r, self._reader.alike)]

    def of_kind(self, kind: str) -> list[CompiledRule]:
        """All of a kind that e-nodes may match."""
        return [c for c in map(self.compiled, self.among(self.by_kind[kind])) if c is not None]

    def compiled(self, rule: RewriteRule, filtered: bool | None = None) -> CompiledRule | None:
        """A rule for the e-nodes that there may be by now; None if it matches none of these."""
        compiled, new = self._store.program.compiled(rule, filtered)
        self._store.engine.run(*new)
        return compiled

    def built(self, rule: RewriteRule, matched: Collection[str] | None = None) -> None:
        """Takes note that a rule was applied, by the egglog rules that had matches if these are known: there may be
        e-nodes of other forms."""
        self._store.engine.run(*self._store.program.built(rule, matched))

    def _sort(self) -> None:
        rules = [r for r in self._store.program.rules if r.name in self._chosen]
        self.by_kind = {k: [r for r in rules if r.kind == k] for k in ("single", "multi", "group")}
