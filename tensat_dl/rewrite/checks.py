"""Whether a group rule applies to a group, and with which target: decided by types, once for all groups alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import TensorType
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.groups import instantiate, member
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.target import concrete


@dataclass(frozen=True, slots=True)
class Member:
    """Handles of what varies by member, by name; outputs included."""

    tensors: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        return dict(self.tensors)[name]


@dataclass
class Group:
    """Members that share ``shared`` (handles by name) and ``attrs`` (values by variable)."""

    shared: dict[str, int]
    attrs: dict[str, Any]
    members: list[Member] = field(default_factory=list)

    def of(self, members: Sequence[Member]) -> Group:
        """The group of these members alone."""
        return Group(self.shared, self.attrs, list(members))


class Known(Protocol):
    """What is known of tensors, by number: all that conditions of rules and types of targets can ask for."""

    @property
    def types(self) -> Mapping[int, TensorType]: ...
    @property
    def weights(self) -> Set[int]: ...
    @property
    def varying(self) -> Set[int]: ...
    @property
    def values(self) -> Mapping[int, float]: ...
    @property
    def factors(self) -> Mapping[int, int]: ...
    @property
    def starts(self) -> Set[int]: ...


def fact(known: Known, function: str, tensor: int) -> Any:
    """What ``weight(x)``, ``value(x)``, ``factors(x)`` or ``start(x)`` says of a tensor; for ``not weight(x)`` it is
    asked for ``varying``."""
    match function:
        case "weight":
            return tensor in known.weights
        case "varying":
            return tensor in known.varying
        case "factors":
            return known.factors.get(tensor, 1)
        case "start":
            return tensor in known.starts
    return known.values.get(tensor)


def kind(known: Known, tensor: int) -> tuple[object, ...]:
    """All of a tensor that conditions of rules can ask for."""
    facts = tensor in known.weights, tensor in known.varying, tensor in known.starts
    return known.types[tensor], *facts, known.values.get(tensor), known.factors.get(tensor, 1)


class Checks:
    """The targets of group rules for groups. Repeated blocks have many groups of equal types, and what holds of one
    of them holds of all, in every iteration of an exploration."""

    def __init__(self, ops: OpTable) -> None:
        self.ops = ops
        self._infer = Inference(ops)
        self._instances: dict[tuple[str, int], RewriteRule] = {}
        self._targets: dict[tuple[Any, ...], Variant | None] = {}

    def instance(self, rule: RewriteRule, n: int) -> RewriteRule:
        """A group rule for that many members."""
        key = (rule.name, n)
        if key not in self._instances:
            self._instances[key] = instantiate(rule, n)
        return self._instances[key]

    def target(self, rule: RewriteRule, group: Group, known: Known) -> Variant | None:
        """The typed target for a group's members; None if the rule does not apply to the whole group."""
        tensors = [*group.shared.values(), *(h for m in group.members for _, h in m.tensors)]
        kinds = tuple(kind(known, h) for h in tensors)
        key = (rule.name, len(group.members), *map(repr, group.attrs.values()), kinds)
        if key not in self._targets:
            self._targets[key] = self._target(rule, group, known)
        return self._targets[key]

    def _target(self, rule: RewriteRule, group: Group, known: Known) -> Variant | None:
        names: dict[str, int] = dict(group.shared)
        lists: dict[str, tuple[SymType, ...]] = {}
        for k, m in enumerate(group.members):
            for name, handle in m.tensors:
                names[member(name, k)] = handle
                t = known.types[handle]
                lists[name] = (*lists.get(name, ()), SymType(t.dtype, t.shape))
        env: dict[str, Any] = {**lists, **group.attrs}
        types = {n: known.types[h] for n, h in names.items()}
        return concrete(
            self.instance(rule, len(group.members)),
            self._infer,
            types,
            env,
            lambda function, tensor: fact(known, function, names[tensor]),
        )
