"""The most general true form of an equation that was found at a few types.

Attributes become variables, or expressions of dimensions, as far as the equation stays true at other ranks, sizes and
attributes; a condition is added where it is true only there. Instances are drawn and compared as `tensat-dl check`
does it; the verdict is left to `verify_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations, product
from typing import Literal

import numpy as np

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import FLOATS, AttrValue, TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.discover.candidates import VARIABLES, Equation, Tree, exchanged, split, with_scalar
from tensat_dl.discover.conditions import menu, weakest
from tensat_dl.discover.numbers import UNITS, Whole
from tensat_dl.discover.written import Arrow, literal, rewrites, rule_text
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.compare import compare_exactly
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.rules.instance import Assignment, Instance
from tensat_dl.verify.rules.sampling import Sampler

#: How many instances a form is tried on, and after how many vain attempts no more are drawn; how many confirm
#: conditions; and at least so many have to pass.
INSTANCES = 24
PATIENCE = 40
CONFIRMED = 48
LEAST = 4
#: Where so many times as many instances fail as pass, no condition will help.
HOPELESS = 8
#: At most so many forms of an equation are tried, and so many choices of conditions of a form.
FORMS = 24
CHOICES = 6
#: The names of variables for attributes, by the attribute's name, else by its type.
NAMES = {
    "axis": "kji",
    "stride": "st",
    "pads": "pq",
    "dilation": "de",
    "act": "fg",
    "kernel": "mn",
    "perm": "pqr",
    "start": "ac",
    "stop": "bd",
}

#: The last axes, of rows and columns, are counted from the last one; others from the first.
MATRIX = 2
#: In the text of an attribute, the node's axis.
AXIS = "{axis}"
#: The text of an attribute where the node is not the root of a side, and where it is; None: it is left out.
Option = tuple[str | None, str | None]
#: A variable in all places, a variable in that of the root, an expression, a literal.
Kind = Literal["both", "root", "computed", "plain"]
#: An attribute's name and value: where these are equal one variable stands for all.
Group = tuple[str, AttrValue]


@dataclass(frozen=True, slots=True)
class General:
    """A rule as general as it was found to be true: an equation, the texts of attributes, and conditions."""

    equation: Equation
    arrow: Arrow
    texts: tuple[tuple[Group, Option], ...]
    where: tuple[str, ...] = ()
    family: tuple[str, ...] = ()  #: functions that may stand in the place of the first of them

    def text(self, name: str, doc: str = "") -> str:
        """The rule in the language; of a family, as one. The name of a family's rules ends with the function."""
        if self.family:
            var, one = self.member()
            words = ", ".join(self.family)
            return one.text(f"{name}-{var} for {var} in {words}", doc)
        options = dict(self.texts)

        def text(node: Tree, root: bool, attr: str, value: AttrValue) -> str | None:
            found = options[attr, value][root]
            if found is None or AXIS not in found:
                return found
            axis = options["axis", dict(node.attrs)["axis"]][root]
            return found.replace(AXIS, axis or "0")

        return rule_text(name, self.equation, self.arrow, text, self.where, doc)

    def member(self) -> tuple[str, General]:
        """A name for the function of a family, and the rule for it."""
        first = replace(self, family=())
        taken = "= f" in first.text("one")  # as a variable for activations
        var = "h" if taken else "f"
        return var, first.with_function(self.family[0], var)

    def with_function(self, old: str, new: str) -> General:
        """The same about another function."""
        sides = (exchanged(t, old, new) for t in (self.equation.left, self.equation.right))
        texts = tuple(
            ((name, new if value == old else value), tuple(new if t == old else t for t in option))
            for (name, value), option in self.texts
        )
        return replace(self, equation=Equation(*sides), texts=texts)  # type: ignore[arg-type]


@dataclass
class Outcomes:
    """The instances of a rule on which its sides were equal, and on which they were not."""

    passed: list[Assignment] = field(default_factory=list)
    failed: list[Assignment] = field(default_factory=list)
    telling: int = 0  #: instances on which they were equal, though no dimension is 1


class Generaliser:
    """Generalises equations over one table of operators. What holds for one of the ``functions`` is tried for the
    others."""

    def __init__(self, ops: OpTable, functions: Sequence[str] = ()) -> None:
        self.ops = ops
        self.functions = functions
        self.infer = Inference(ops)

    def general(self, c: Equation) -> General | None:
        """The most general form that is true on all instances tried; None if there is none."""
        scalar = with_scalar(c, self.ops)
        found = None
        if scalar is not None:  # which may be any tensor, or else has to be a scalar
            found = self._general(scalar, ()) or self._general(scalar, _scalars(scalar))
        return found or self._general(c, ())

    def merge(self, c: Equation) -> General | None:
        """The most general form of an equation whose left side is a concatenation, as a rule with two results."""
        return self._general(c, (), ("merge",))

    def _general(
        self, c: Equation, where: tuple[str, ...], arrows: tuple[Arrow, ...] | None = None
    ) -> General | None:
        """The most general form that is true under conditions, with the numbers that the equation has."""
        if self._hopeless(c, where):
            return None
        c = self._split(c, where)
        for arrow in arrows or _arrows(c):
            for texts in self._forms(c, arrow):
                form = General(c, arrow, tuple(texts.items()), where)
                try:
                    rules = self._rules(form)
                    trial = self.trial(rules[0], INSTANCES) if rules else Outcomes()
                    if len(trial.passed) < LEAST or not trial.telling:
                        continue
                    found = form if not trial.failed else self._with_conditions(form, rules[0], trial)
                    if found is not None and self._applies(found):
                        return self._family(self._plain(found, trial))
                except TsrError:  # an expression has no value where it stands
                    continue
        return None

    def _split(self, c: Equation, where: tuple[str, ...]) -> Equation:
        """The equation with two variables in the place of one that occurs twice on both sides, as far as that is
        true: terms have fewer leaves than rules may have variables."""
        for variable in sorted(c.left.variables):
            if len(c.left.variables) == len(VARIABLES):
                break
            for other in split(c, variable):
                trial = self._as_found(other, where)
                if len(trial.passed) >= LEAST and not trial.failed and trial.telling:
                    c = other
                    break
        return c

    def _family(self, form: General) -> General:
        """The form for all functions of which it is true, if it is about one."""
        words = {n.op for t in (form.equation.left, form.equation.right) for n in t.nodes()}
        words |= {str(value) for (_, value), option in form.texts if value in option}
        named = [f for f in self.functions if f in words]
        if len(named) != 1:
            return form
        alike = [f for f in self.functions if f == named[0] or self._holds(form.with_function(named[0], f))]
        if len(alike) < 2:
            return form
        found = form.with_function(named[0], alike[0])
        return replace(found, family=tuple(alike))

    def _holds(self, form: General) -> bool:
        rules = self._rules(form)
        trial = self.trial(rules[0], INSTANCES) if rules else Outcomes()
        return not trial.failed and len(trial.passed) >= LEAST and trial.telling > 0

    def _hopeless(self, c: Equation, where: tuple[str, ...]) -> bool:
        """Whether the equation is false nearly everywhere even with all attributes as they were found."""
        trial = self._as_found(c, where)
        if not trial.passed or len(trial.failed) >= HOPELESS * len(trial.passed):
            return True
        conditions = menu([VARIABLES[i] for i in sorted(c.left.variables)], {})
        return bool(trial.failed) and not any(weakest(conditions, trial.passed, trial.failed, LEAST))

    def _as_found(self, c: Equation, where: tuple[str, ...]) -> Outcomes:
        """A trial of the equation with all attributes as they were found. With vectors beside matrices, where an axis
        of both is the last one of both, axes may also be counted from there."""
        trial = self._with_literals(c, where, from_last=False)
        if not trial.failed or len({leaf.type.rank for leaf in c.left.leaves()}) == 1:
            return trial
        other = self._with_literals(c, where, from_last=True)
        return trial if other.failed else other

    def _with_literals(self, c: Equation, where: tuple[str, ...], from_last: bool) -> Outcomes:
        texts = {}
        for side in (c.left, c.right):
            for node in side.nodes():
                for name, value in node.attrs:
                    declared = self.ops[node.op][name]
                    plain = None if value == declared.default else literal(value)
                    if from_last and declared.type == "axis":
                        plain = next(iter(_expressions(c, node, declared, value)), plain)
                    texts[name, value] = (plain, plain)
        rules = self._rules(General(c, "=>", tuple(texts.items()), where))
        return self.trial(rules[0], INSTANCES) if rules else Outcomes()

    def _applies(self, form: General) -> bool:
        """Whether both directions have instances."""
        return all(any(Sampler(r, self.infer).several(1, PATIENCE)) for r in self._rules(form))

    def _plain(self, form: General, trial: Outcomes) -> General:
        """The form with literals for those variables that types leave no choice."""
        options = dict(form.texts)
        for (name, value), (inner, root) in form.texts:
            values = {a.attrs.get(root or "") for a in trial.passed}
            if (
                isinstance(value, int)
                and inner == root
                and root in trial.passed[0].attrs
                and values == {value}
            ):
                options[name, value] = (literal(value), literal(value))
        return replace(form, texts=tuple(options.items()))

    def trial(self, rule: RewriteRule, count: int, seed: int = 0) -> Outcomes:
        """Compares both sides on so many instances that tell something; on fewer if hardly any passes."""
        trial = Outcomes()
        for _, _, i in Sampler(rule, self.infer, seed).several(count, PATIENCE):
            if i.before == i.after or any(d < 1 for t in i.assignment.types.values() for d in t.shape):
                continue
            equal = self.equal(i, seed)
            if equal is not None:
                (trial.passed if equal else trial.failed).append(i.assignment)
                trial.telling += equal and _is_plain(i)
            if len(trial.failed) >= HOPELESS * (1 + len(trial.passed)):
                break
        return trial

    def equal(self, i: Instance, seed: int = 0) -> bool | None:
        """Whether both sides of an instance compute the same; None if nobody can say."""
        floats = all(t.dtype in FLOATS for t in i.assignment.types.values())
        for unit in UNITS if floats else ():
            numbers = Whole(seed, unit)
            values = {name: numbers.leaf(name, t) for name, t in leaves((i.before, i.after)).items()}
            try:
                found = [evaluate(g, values, numbers, self.ops) for g in (i.before, i.after)]
            except (OutOfReach, ArithmeticError, ValueError):
                break
            if not numbers.inexact:
                return all(np.array_equal(x, y) for x, y in zip(*found, strict=True))
        status = compare_exactly(i.before, i.after, self.ops, seed).status
        return None if status == "unsupported" else status == "equal"

    def _rules(self, form: General) -> list[RewriteRule]:
        """The rewrites of a form; none if it is no rule: a variable is unbound on one side, for instance."""
        try:
            return rewrites(form.text("found"), self.ops)
        except TsrError:
            return []

    def _with_conditions(self, form: General, rule: RewriteRule, trial: Outcomes) -> General | None:
        """The form with the weakest conditions that exclude all failures. A choice has to stand another draw; if it
        does not, the next one has to exclude these failures, too."""
        kinds = {
            variable: declared.type
            for node in rule.source.nodes
            for attribute in node.attrs
            for variable in attribute.variables()
            if (declared := self.ops[node.op].attr(attribute.name)) is not None
        }
        conditions = menu(rule.tensor_variables(), kinds)
        passed, failed = list(trial.passed), list(trial.failed)
        tried: set[tuple[str, ...]] = set()
        for turn in range(CHOICES):
            where = next((w for w in weakest(conditions, passed, failed, LEAST) if w not in tried), None)
            if where is None:
                return None
            tried.add(where)
            chosen = replace(form, where=(*form.where, *where))
            rules = self._rules(chosen)
            again = self.trial(rules[0], CONFIRMED, seed=1 + turn) if rules else Outcomes()
            if rules and not again.failed and len(again.passed) >= LEAST and again.telling:
                return chosen
            failed += again.failed  # they tell the next choice from this one
        return None

    def _forms(self, c: Equation, arrow: Arrow) -> Iterator[dict[Group, Option]]:
        """The texts of attributes, the most general first. What a source does not bind is no variable."""
        sources = _sources(c, arrow)
        bound = set.intersection(*({a for t in side for n in t.nodes() for a in n.attrs} for side in sources))
        roots = set.intersection(*(set(t.attrs) for side in sources for t in side))
        groups: dict[Group, list[Option]] = {}
        taken = {VARIABLES[i] for i in c.left.variables}
        for side in (c.left, c.right):
            for node in side.nodes():
                for name, value in node.attrs:
                    if (name, value) not in groups:
                        options = self._options(c, node, name, value, taken)
                        known = {"both": (name, value) in bound, "root": (name, value) in roots}
                        groups[name, value] = [text for kind, text in options if known.get(kind, True)]
        ranked = sorted(
            product(*(range(len(options)) for options in groups.values())), key=lambda x: (sum(x), x)
        )
        for chosen in ranked[:FORMS]:
            yield {g: groups[g][i] for g, i in zip(groups, chosen, strict=True)}

    def _options(
        self, c: Equation, node: Tree, name: str, value: AttrValue, taken: set[str]
    ) -> list[tuple[Kind, Option]]:
        """The texts that an attribute may have, the most general first."""
        declared = self.ops[node.op][name]
        variable = _variable(name, taken)
        plain = None if value == declared.default else literal(value)
        options: list[tuple[Kind, Option]] = [("both", (variable, variable))]
        if declared.choices:
            options.append(("root", (plain, variable)))
        options += [("computed", (text, text)) for text in _expressions(c, node, declared, value)]
        special = (
            plain is None or _is_special(declared, value) or (node.op != "slice" and declared.type == "int")
        )
        return [*options, ("plain", (plain, plain))] if special else options


def _is_plain(i: Instance) -> bool:
    """Whether no tensor of an instance has a dimension of 1, where more is true than elsewhere."""
    return all(1 not in t.shape for graph in (i.before, i.after) for n in graph.nodes for t in n.types)


def _is_special(declared: AttrDecl, value: AttrValue) -> bool:
    """Whether a value is one that people write into rules: a word, an axis, a permutation, 0 or 1."""
    return declared.type in ("choice", "axis", "axes", "bool") or value in (0, 1)


def _scalars(c: Equation) -> tuple[str, ...]:
    """Conditions that the variables that are scalars where an equation was found are scalars."""
    ranks = {VARIABLES[leaf.variable]: leaf.type.rank for leaf in c.left.leaves()}
    return tuple(f"rank({x}) == 0" for x, rank in ranks.items() if rank == 0)


def _arrows(c: Equation) -> tuple[Arrow, ...]:
    """The directions that variables allow: both, or else one."""
    return ("<=>", "<=", "=>") if c.both else ("=>",)


def _sources(c: Equation, arrow: Arrow) -> tuple[tuple[Tree, ...], ...]:
    """The terms that a rule matches; of a rule with two results both, together."""
    match arrow:
        case "<=>":
            return ((c.left,), (c.right,))
        case "=>":
            return ((c.left,),)
        case "<=":
            return ((c.right,),)
        case "merge":
            return (c.left.args,)


def _variable(name: str, taken: set[str]) -> str:
    """A name that is not taken, which it is then."""
    names: str = NAMES.get(name, name[:1])
    free = (text for text in (*names, *(f"{name}_{i}" for i in range(2, 99))) if text not in taken)
    found: str = next(free)
    taken.add(found)
    return found


def _expressions(c: Equation, node: Tree, declared: AttrDecl, value: AttrValue) -> list[str]:
    """Expressions of ranks and dimensions that have the value; an axis counted from the last one."""
    if declared.type == "axis" and isinstance(value, int):
        back = value - node.args[0].type.rank
        return [str(back)] if -back <= MATRIX else []
    tensors = _tensors((c.left, c.right))
    if declared.type == "axes" and isinstance(value, tuple) and value == tuple(range(len(value))):
        return [f"[i for i in 0..rank({next(iter(tensors))})]"]
    if declared.type == "int" and isinstance(value, int):
        return list(_sizes(node, tensors, value))
    return []


def _sizes(node: Tree, tensors: Mapping[str, TensorType], value: int) -> Iterator[str]:
    """Dimensions along the node's axis, and their sums; of a node without an axis, quotients of channels."""
    axis = dict(node.attrs).get("axis")
    if not isinstance(axis, int):
        channels = {name: t.shape[1] for name, t in tensors.items() if t.rank > 1}
        for a, b in permutations(channels, 2):
            if channels[a] == value * channels[b]:
                yield f"dim({a}, 1) / dim({b}, 1)"
        return
    sizes = {f"dim({name}, {AXIS})": t.shape[axis] for name, t in tensors.items() if axis < t.rank}
    yield from (text for text, size in sizes.items() if size == value)
    yield from (f"{a} + {b}" for a, b in combinations(sizes, 2) if sizes[a] + sizes[b] == value)


def _tensors(sides: Sequence[Tree]) -> dict[str, TensorType]:
    return {VARIABLES[leaf.variable]: leaf.type for side in sides for leaf in side.leaves()}
