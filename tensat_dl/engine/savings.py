"""What applying a multi-pattern rule is estimated to save: the order in which its matches are tried.

A match saves what its outputs cost now less what the target's operators cost. That is an estimate, since operands may
be computed for other uses and views may have to be copied, and it may well be negative for the step that a better one
needs. So it decides what is tried first, and nothing is dropped for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.groups import View
from tensat_dl.engine.targets import target_of
from tensat_dl.engine.types import Estimate
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.checks import fact, kind
from tensat_dl.rewrite.target import concrete


class Savings:
    """Estimates for one rule on one e-graph, remembered by the types of what is matched."""

    def __init__(self, compiled: CompiledRule, view: View, ops: OpTable, estimate: Estimate) -> None:
        self.compiled = compiled
        self.view = view
        self.ops = ops
        self.infer = Inference(ops)
        self.estimate = estimate
        self.patterns = {n.result: n for n in compiled.rule.source.nodes}
        self._targets: dict[tuple[Any, ...], float] = {}

    def of(self, match: Sequence[int]) -> float:
        """Estimated milliseconds that a match saves, given the handles of the rule's tensors."""
        names = dict(zip(self.compiled.tensors, match, strict=True))
        rule = self.compiled.rule
        now = fsum(
            self.view.cost(names[o], {self.patterns[o].op}, self.estimate) for o in rule.source.outputs
        )
        attributes = self._attributes(names)
        if attributes is None:
            return 0.0
        key = (*(kind(self.view, h) for h in match), repr(attributes))
        if key not in self._targets:
            self._targets[key] = self._target(names, attributes)
        return now - self._targets[key]

    def _target(self, names: dict[str, int], attributes: dict[str, Any]) -> float:
        """Estimated milliseconds of the target's operators."""
        view = self.view
        types = {n: view.types[h] for n, h in names.items()}

        def known(function: str, tensor: str) -> Any:
            return fact(view, function, names[tensor])

        variant = concrete(self.compiled.rule, self.infer, types, attributes, known)
        if variant is None:
            return 0.0
        return target_of(self.compiled.rule, names, variant, view, self.ops).cost(self.estimate)

    def _attributes(self, names: dict[str, int]) -> dict[str, Any] | None:
        """The rule's attribute variables, from e-nodes that are matched; None where those are not known."""
        found: dict[str, Any] = {}
        for pattern in self.patterns.values():
            tensors = (*pattern.args, pattern.result)
            if not pattern.attrs or any(t not in names for t in tensors):
                continue
            attrs = self.view.attributes(
                pattern.op, tuple(names[a] for a in pattern.args), names[pattern.result]
            )
            if attrs is None:
                return None
            values = dict(attrs)
            for attribute in pattern.attrs:
                found |= attribute.bound(values[attribute.name])
        return found
