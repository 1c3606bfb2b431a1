"""The transformations, and for each the equations in which an operator may pass it.

An equation has the transformation inside of the operator on one side, and outside on the other, with parameters that
may differ. The laws of a question are tried in turn; the first that is true is the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tensat_dl.coverage.equations import COPIES, Law, OpTerms, Question, call, swapped

#: Nothing, for a transformation that disappears.
Wrap = Callable[[str], str]
Where = tuple[str, ...]
POSITIVE = "value(s) > 0.0"
FLOATS = "is_float(dtype(x))"


@dataclass(frozen=True, slots=True)
class Transformation:
    """``title`` heads a column; ``term`` is it, applied to a tensor x; ``questions`` of an operator."""

    name: str
    title: str
    term: str
    questions: Callable[[OpTerms], Iterator[Question]]


def _inside(f: OpTerms, group: Sequence[int], wrap: Wrap, attrs: Mapping[str, str]) -> str:
    return f([wrap(x) if i in group else x for i, x in enumerate(f.operands)], attrs)


def _scalars(f: OpTerms, group: Sequence[int]) -> Where:
    """The other operands are scalars."""
    return tuple(f"rank({x}) == 0" for i, x in enumerate(f.operands) if i not in group)


def _alike(f: OpTerms, group: Sequence[int], what: str) -> Where:
    first, *others = [f.operands[i] for i in group]
    return tuple(f"{what}({first}) == {what}({x})" for x in others)


def _product(*choices: Sequence[Where]) -> list[Where]:
    """All combinations of conditions, those without first."""
    found = (tuple(dict.fromkeys(sum(some, ()))) for some in product(*choices))
    return sorted(dict.fromkeys(found), key=len)


# ---- movement ---------------------------------------------------------------------------------------------


def _transpose(f: OpTerms) -> Iterator[Question]:
    def general(x: str) -> str:
        return call("transpose", [x], {"perm": "p"})

    for group in f.groups():
        laws: list[Law] = []
        for plain in f.plain():
            own = f.given(plain)
            moved = own | {a.name: f"p[{own[a.name]}]" for a in f.attrs("axis") if a.name in own}
            lists = {
                a.name: f"[{own[a.name]}[p[i]] for i in 0..len(p)]" for a in f.attrs("list") if a.name in own
            }
            for where in _product(
                [(), ("p[-1] == len(p) - 1",), ("p[1] == 1",), ("p[0] == 0",)], [(), _scalars(f, group)]
            ):
                if not lists:
                    laws.append(Law(_inside(f, group, general, own), general(f(f.operands, moved)), where))
                else:
                    laws.append(
                        Law(general(f(f.operands, own)), _inside(f, group, general, own | lists), where)
                    )
            images = {a.name: swapped(a, own[a.name]) for a in f.attrs("image") if a.name in own}
            for perm, attrs in (("[0, 1, 3, 2]", own | images), ("[1, 0, 2, 3]", own)):

                def special(x: str, perm: str = perm) -> str:
                    return call("transpose", [x], {"perm": perm})

                laws.append(Law(_inside(f, group, special, own), special(f(f.operands, attrs))))
        yield tuple(laws)


def _reshape(f: OpTerms) -> Iterator[Question]:
    def shaped(x: str, shape: str = "s") -> str:
        return call("reshape", [x], {"shape": shape})

    axes = f.attrs("axis")
    for group in f.groups():
        laws: list[Law] = []
        x = f.operands[group[0]]
        last = f"s[-1] == dim({x}, -1)"
        kept: list[Where] = [(), (last,), (f"s[0] == dim({x}, 0)", f"s[1] == dim({x}, 1)")]
        others: list[Where] = [(), _scalars(f, group), _alike(f, group, "shape")]
        for plain in f.plain():
            own = f.given(plain)
            left = _inside(f, group, shaped, own)
            laws += [Law(left, shaped(f(f.operands, own)), w) for w in _product(others, kept)]
            for a in axes:
                j = own[a.name]
                attrs = own | {a.name: f"rank({x}) - 1"}
                ends = (f"{j} == len(s) - 1", last)
                for shape in ("s", "s[..-1] ++ [1]"):
                    laws.append(Law(left, shaped(f(f.operands, attrs), shape), ends))
        yield tuple(laws)


def _along(f: OpTerms, x: str) -> list[Where]:
    """Conditions on the axis k of something that takes the parts of x along it one by one."""
    own = f.given()
    axes: list[Where] = [(f"k != {own[a.name]}",) for a in f.attrs("axis")]
    return [
        *((), *axes, (f"k != rank({x}) - 1",), ("k != 1",), ("k < 2",), ("k == 0",), ("k == 1",)),
        (f"k < rank({x}) - 2",),
        (f"k == rank({x}) - 2",),
        (f"k == rank({x}) - 1",),
    ]


def _concat(f: OpTerms) -> Iterator[Question]:
    for group in f.groups():
        copies = [COPIES[i] if i in group else 2 * x for i, x in enumerate(f.operands)]
        joined = [
            call("concat", [*pair], {"axis": "k"}) if pair[0] != pair[1] else pair[0] for pair in copies
        ]
        names = [COPIES[i] for i in group]
        ranks = tuple(f"rank({names[0][0]}) == rank({pair[0]})" for pair in names[1:])
        laws = []
        for plain in f.plain():
            own = f.given(plain)
            parts = [f([pair[i] for pair in copies], own) for i in (0, 1)]
            sides = (call("concat", parts, {"axis": "k"}), f(joined, own))
            # Instances are drawn by the left side: that three pairs of tensors can be joined is seldom hit upon.
            left, right = sides if len(group) < 3 else sides[::-1]
            for where in _product([(), ranks, _scalars(f, group)], _along(f, names[0][0])):
                laws.append(Law(left, right, where))
        yield tuple(laws)


def _slice(f: OpTerms) -> Iterator[Question]:
    def part(x: str) -> str:
        return call("slice", [x], {"axis": "k", "start": "m", "stop": "n"})

    for group in f.groups():
        laws = []
        x = f.operands[group[0]]
        for plain in f.plain():
            own = f.given(plain)
            left = _inside(f, group, part, own)
            for where in _product(_along(f, x), [(), _alike(f, group, "rank"), _scalars(f, group)]):
                laws.append(Law(left, part(f(f.operands, own)), where))
        yield tuple(laws)


def _pad(f: OpTerms) -> Iterator[Question]:
    def around(value: str | None, before: str = "b", after: str = "a") -> Wrap:
        more = {} if value is None else {"value": value}
        return lambda x: call("pad", [x], {"before": before, "after": after, **more})

    axes = [f.given()[a.name] for a in f.attrs("axis")]
    sides: list[Where] = [
        *((), *((f"b[{j}] == 0", f"a[{j}] == 0") for j in axes)),
        ("b[-1] == 0", "a[-1] == 0"),
        ("b[1] == 0", "a[1] == 0"),
        ("b[2] == 0", "b[3] == 0", "a[2] == 0", "a[3] == 0"),
    ]
    for group in f.groups():
        laws: list[Law] = []
        others: list[Where] = [(), _scalars(f, group), _alike(f, group, "rank"), _alike(f, group, "shape")]
        for plain in f.plain():
            own = f.given(plain)
            for where in _product(sides, others):
                zeros = ((None, None),)
                for inner, outer in zeros if where else (("w", "w"), *zeros, (None, "1.0"), (None, "0.5")):
                    left = _inside(f, group, around(inner), own)
                    laws.append(Law(left, around(outer)(f(f.operands, own)), where))
            for j in axes:
                right = around(None, f"set(b, {j}, 0)", f"set(a, {j}, 0)")(f(f.operands, own))
                laws.append(Law(_inside(f, group, around(None), own), right))
        yield _plainest(laws)


def _broadcast(f: OpTerms) -> Iterator[Question]:
    def wide(x: str, shape: str = "s") -> str:
        return call("expand", [x], {"shape": shape})

    axes = [(a.name, f.given()[a.name]) for a in f.attrs("axis")]
    for group in f.groups():
        laws: list[Law] = []
        x = f.operands[group[0]]
        kept: list[Where] = [
            *((), (f"len(s) == rank({x})",), (f"s[-1] == dim({x}, -1)",)),
            (f"len(s) == rank({x})", f"s[1] == dim({x}, 1)"),
            (f"len(s) == rank({x})", f"s[2] == dim({x}, 2)", f"s[3] == dim({x}, 3)"),
        ]
        others: list[Where] = [(), _scalars(f, group), _alike(f, group, "shape")]
        for plain in f.plain():
            own = f.given(plain)
            left = _inside(f, group, wide, own)
            laws += [Law(left, wide(f(f.operands, own)), w) for w in _product(kept, others)]
            for name, j in axes:
                where = (f"{j} >= len(s) - rank({x})", f"s[{j}] == dim({x}, {j} - len(s) + rank({x}))")
                attrs = own | {name: f"{j} - len(s) + rank({x})"}
                for shape in ("s", f"set(s, {j}, 1)"):
                    laws.append(Law(left, wide(f(f.operands, attrs), shape), where))
            if len(group) < len(f.operands):
                laws.append(Law(left, f(f.operands, own)))
        yield tuple(laws)


# ---- element types, scales and shifts ---------------------------------------------------------------------


def _cast(f: OpTerms) -> Iterator[Question]:
    def typed(x: str) -> str:
        return call("cast", [x], {"to": "t"})

    for group in f.groups():
        laws = []
        x = f.operands[group[0]]
        for plain in f.plain():
            own = f.given(plain)
            left = _inside(f, group, typed, own)
            for outer in (typed, str):
                right = outer(f(f.operands, own))
                for where in ((), (f"is_float(dtype({x}))", "is_float(t)"), ("is_number(t)",)):
                    laws.append(Law(left, right, where))
        yield tuple(laws)


def _pointwise(
    f: OpTerms, wrap: Callable[[str], str], outers: Sequence[Wrap], wheres: Sequence[Where]
) -> Iterator[Question]:
    """A transformation of each element by itself, and what may stand outside in its place."""
    for group in f.groups():
        laws = []
        for plain in f.plain():
            own = f.given(plain)
            left = _inside(f, group, wrap, own)
            for outer, where in product(outers, wheres):
                laws.append(Law(left, outer(f(f.operands, own)), where))
        yield tuple(laws)


def _unary(f: OpTerms, x: str) -> str | None:
    """The operator applied to another tensor, if it has one operand."""
    return f([x], f.given()) if len(f.operands) == 1 else None


def _scale(f: OpTerms) -> Iterator[Question]:
    of = _unary(f, "s")
    outers: list[Wrap] = [
        lambda y: f"smul({y}, s)",
        str,
        *([] if of is None else [lambda y: f"smul({y}, {of})", lambda y: f"ewadd({y}, {of})"]),
        lambda y: f"smul({y}, ewmul(s, s))",
        lambda y: f"ewdiv({y}, s)",
    ]
    yield from _pointwise(f, lambda x: f"smul({x}, s)", outers, [(), (POSITIVE,), (FLOATS,)])


def _negate(f: OpTerms) -> Iterator[Question]:
    outers: list[Wrap] = [
        lambda y: f"neg({y})",
        str,
        lambda y: f"ewdiv(1.0, {y})",
        lambda y: f"ewsub(1.0, {y})",
        *([] if len(f.operands) > 1 else [lambda y: f"ewsub({y}, x)"]),
    ]
    yield from _pointwise(f, lambda x: f"neg({x})", outers, [(), (FLOATS,)])


def _shift(f: OpTerms) -> Iterator[Question]:
    of = _unary(f, "s")
    outers: list[Wrap] = [
        lambda y: f"ewadd({y}, s)",
        str,
        *([] if of is None else [lambda y: f"smul({y}, {of})"]),
        lambda y: f"ewadd({y}, ewadd(s, s))",
        *([] if of is None else [lambda y: f"ewadd({y}, {_unary(f, 'expand(s; shape = shape(x))')})"]),
    ]
    wheres: list[Where] = [("rank(s) == 0",), ("rank(s) == 0", FLOATS)]
    yield from _pointwise(f, lambda x: f"ewadd({x}, s)", outers, wheres)


def _channels(op: str) -> Callable[[OpTerms], Iterator[Question]]:
    """A tensor c that has an element for each channel: a row [c], where channels are last, or a column [c, 1, 1]."""

    def questions(f: OpTerms) -> Iterator[Question]:
        layouts: list[Where] = [
            ("rank(c) == 1",),
            ("rank(c) == 3", "dim(c, 1) == 1", "dim(c, 2) == 1"),
        ]
        of = _unary(f, "c")
        outers: list[Wrap] = [lambda y: f"{op}({y}, c)", str]
        if of is not None:
            outers += [
                lambda y: f"{op}({y}, {_unary(f, 'expand(c; shape = shape(x))')})",
                lambda y: f"{'ewmul' if op == 'ewadd' else 'ewadd'}({y}, {of})",
                lambda y: f"{op}({y}, {of})",
            ]
        outers += [lambda y: f"{op}({y}, {op}(c, c))"]
        if op == "ewmul":
            outers += [lambda y: f"ewdiv({y}, c)"]
        along: list[Where] = [(), *((f"{f.given()[a.name]} != rank(x) - 1",) for a in f.attrs("axis"))]
        for layout in layouts:
            yield from _pointwise(
                f, lambda x: f"{op}({x}, c)", outers, [layout, *((*layout, *w) for w in along[1:])]
            )

    return questions


def _plainest(laws: Sequence[Law]) -> Question:
    """The laws, with one that is about zeros as the question."""
    first = next((law for law in laws if "value" not in law.left), laws[0])
    return (first, *(law for law in laws if law is not first))


TRANSFORMATIONS = (
    Transformation("transpose", "transpose", "transpose(x; perm = p)", _transpose),
    Transformation("reshape", "reshape", "reshape(x; shape = s)", _reshape),
    Transformation("concat", "concat", "concat(x, y; axis = k)", _concat),
    Transformation("slice", "slice", "slice(x; axis = k, start = m, stop = n)", _slice),
    Transformation("pad", "pad", "pad(x; before = b, after = a)", _pad),
    Transformation("broadcast", "broadcast", "expand(x; shape = s)", _broadcast),
    Transformation("cast", "cast", "cast(x; to = t)", _cast),
    Transformation("scale", "scale", "smul(x, s)", _scale),
    Transformation("scale-channels", "scale channels", "ewmul(x, c)", _channels("ewmul")),
    Transformation("shift", "shift", "ewadd(x, s), s a scalar", _shift),
    Transformation("shift-channels", "shift channels", "ewadd(x, c)", _channels("ewadd")),
    Transformation("negate", "negate", "neg(x)", _negate),
)
