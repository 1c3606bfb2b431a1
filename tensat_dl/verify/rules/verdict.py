"""Verdicts on rules, and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.core.graph import Graph, Node, attr_text
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.shown import Shown
from tensat_dl.core.words import plural
from tensat_dl.ops.table import OpTable

Status = Literal["proved", "derived", "tested", "assumed", "refuted", "vacuous"]
#: In floating point a rule is exact if both sides round alike, else it reassociates. Observed, not proven.
Rounding = Literal["exact", "reassociating"]
#: What a machine does otherwise than arithmetic on real numbers.
AspectName = Literal["rounding", "overflow", "infinities", "zero divisors"]
AspectStatus = Literal["same", "differs", "not examined"]
#: A tensor's elements, nested by dimension; of a scalar its one element.
Elements = float | tuple["Elements", ...]


#: The reason in a verdict on a rule whose turn had not come when Ctrl-C was pressed.
NOT_EXAMINED = "it was not examined: Ctrl-C came before"
#: A tensor whose elements take more characters than this is told by those that are not 0.
MANY = 160


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Values for which a rule's two sides differ.

    ``variables`` are the inputs and weights of both sides, as (name, type); ``attrs`` the attributes that the rule
    leaves open; ``constants`` the tensors of which the rule knows the value. ``before`` and ``after`` are the two
    sides as terms, one for each matched output. ``values`` has the elements of each variable that is not very large;
    element ``index`` of output number ``output`` is ``left`` on the left side and ``right`` on the right side.
    """

    variables: tuple[tuple[str, str], ...]
    attrs: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, float], ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    values: tuple[tuple[str, Elements], ...]
    output: int
    index: tuple[int, ...]
    left: float
    right: float
    opaque: tuple[str, ...] = ()  #: operators of which only types are known, among those of the two sides

    def lines(self) -> list[str]:
        """The lines of a message: variables, the two sides, the values, and the element that differs."""
        settings = [f"{name} : {t}" for name, t in self.variables]
        settings += [f"{name} = {value}" for name, value in self.attrs]
        settings += [f"{name} is {_number(value)} everywhere" for name, value in self.constants]
        k = self.output
        element = f"element {attr_text(self.index)}" if self.index else "the result"
        if len(self.before) > 1:
            element += f" of output {k}"
        left, right = apart(self.left, self.right)
        return [
            "for " + ", ".join(settings),
            f"left:  {self.before[k]}",
            f"right: {self.after[k]}",
            "with " + ", ".join(f"{name} = {shown(value)}" for name, value in self.values)
            if self.values
            else "with any values of the inputs",
            f"{element} is {left} on the left and {right} on the right",
            *(f"{op} may be any function; here it is a random function" for op in self.opaque),
        ]


@dataclass(frozen=True, slots=True)
class Aspect:
    """Whether both sides are the ``same`` in machine arithmetic, observed on a few instances; an ``example`` for
    which they are not; and of overflow the element ``types`` in which they are not."""

    name: AspectName
    status: AspectStatus
    example: str = ""
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Shown):
    """The verdict on one rule, read in one direction.

    ``instances`` is the number of concrete graphs that support it, ``bounded`` the number of these with a bound: a
    rule that is false at one of them would have passed with probability 2^log2_error at most. ``reason`` says why the
    others have no bound; or names the assumption; or says why a rule is vacuous. ``rules`` are the rules that it is
    derived from. ``unneeded`` are conditions without which nothing failed: they are redundant, or nothing tested
    them. ``remarks`` say what no instance has tried. ``aspects`` say what machine arithmetic makes of a rule that
    passed. ``lengths`` are those of the lists at which a list rule was tested. A rule that is "proved" was tested,
    too; ``proof`` says for what it is proved, ``unproved`` why there is no proof (empty if none was looked for).
    """

    rule: str
    status: Status
    instances: int = 0
    bounded: int = 0
    log2_error: float | None = None
    reason: str = ""
    rounding: Rounding | None = None
    counterexample: Counterexample | None = None
    unneeded: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()
    proof: str = ""
    unproved: str = ""
    aspects: tuple[Aspect, ...] = ()

    def __repr__(self) -> str:
        return f"<Verdict on {self.rule}: {self.status}>"

    @property
    def examined(self) -> bool:
        """Whether its turn had come when Ctrl-C was pressed."""
        return self.reason != NOT_EXAMINED

    @property
    def failed(self) -> bool:
        return self.status in ("refuted", "vacuous")

    @property
    def evidence(self) -> str:
        """As in ``p < 2^-40, 24 instances``, or of a list rule ``p < 2^-40, 24 instances, lists of 1 to 4``; of a
        proved rule what is proved stands before it, as in ``all sizes, ranks 2 to 6; ..``."""
        count = f"{self.instances} {plural(self.instances, 'instance')}"
        count += lists_of(self.lengths)
        match self.status:
            case "derived":
                return f"from {', '.join(self.rules)}, {count}"
            case "refuted":
                return "see the counterexample"
            case "proved":
                return f"{self.proof}; {self._tested(count)}"
            case "tested":
                return self._tested(count)
        return self.reason

    def _tested(self, count: str) -> str:
        if self.log2_error is None:
            return count
        bound = f"p < 2^{ceil(self.log2_error)}"
        return (
            f"{bound}, {count}" if self.bounded == self.instances else f"{bound} on {self.bounded} of {count}"
        )


def diagnostic(verdict: Verdict, rule: RewriteRule) -> Diagnostic | None:
    """The message about a failed rule; None if the rule did not fail."""
    name = rule.name
    back = ""
    if rule.span.text != name:  # the other direction of a rule
        name, back = rule.span.text, ", read from right to left,"
    if verdict.status == "refuted":
        found = verdict.counterexample
        notes = tuple(found.lines()) if found is not None else (verdict.reason,)
        return Diagnostic(f"rule `{name}`{back} is false", rule.span, notes=notes)
    if verdict.status == "vacuous":
        hint = "weaken its conditions, or remove it"
        return Diagnostic(f"rule `{name}`{back} never applies", rule.span, hint, notes=(verdict.reason,))
    return None


def lists_of(lengths: Sequence[int]) -> str:
    """As in ``, lists of 1 to 4``; "" without lengths, which are in order."""
    if not lengths:
        return ""
    return f", lists of {lengths[0]}" + (f" to {lengths[-1]}" if len(lengths) > 1 else "")


def derived(rule: str, rules: Iterable[str], instances: int) -> Verdict:
    """The verdict on a rule that follows from others, at ``instances`` assignments of shapes."""
    return Verdict(rule, "derived", instances, rules=tuple(rules))


def apart(left: float, right: float) -> tuple[str, str]:
    """Two numbers, with all of their digits if they look the same otherwise."""
    texts = _number(left), _number(right)
    return texts if texts[0] != texts[1] else (repr(left), repr(right))


def shown(value: Elements) -> str:
    """Elements as a nested list, or of many those that are not 0."""
    text = _nested(value)
    if len(text) <= MANY:
        return text
    elements = np.ndenumerate(np.array(value, float))
    found = [f"{_number(x)} at {attr_text(index)}" for index, x in elements if x]
    return f"0 but for {', '.join(found[:8])}{', ..' if len(found) > 8 else ''}" if found else "0"


def _nested(value: Elements) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, tuple) else _number(value)


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:.9g}"


def terms(graph: Graph, ops: OpTable) -> tuple[str, ...]:
    """The outputs of a small graph, as in ``relu(conv2d(x, w; stride = [2, 1]))``. Attributes that have their default
    are left out."""
    made: list[str] = []
    for node in graph.nodes:
        leaf = node.op in ("input", "weight")
        made.append(node.name if leaf else _term(node, [made[j] for j in node.inputs], ops))
    return tuple(made[i] for _, i in graph.outputs)


def _term(node: Node, args: list[str], ops: OpTable) -> str:
    if node.op == "fill" and node.type.size == 1 and node.type.rank == 0:
        return attr_text(node.attr("value"))
    defaults = {a.name: a.default for a in ops[node.op].attrs}
    attrs = [f"{name} = {attr_text(v)}" for name, v in node.attrs if v != defaults[name]]
    inside = ", ".join(args) + (f"; {', '.join(attrs)}" if attrs else "")
    return f"{node.op}({inside})"
