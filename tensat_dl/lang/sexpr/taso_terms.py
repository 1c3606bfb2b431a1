"""The operators of S-expression rules, and terms of them: trees whose operators, modes and variables are understood.

The operators are those of TENSAT's language. Parameters stand among the operands by position:

    (matmul ACT x y)                      (conv2d SH SW PAD ACT x w)
    (poolmax x KH KW SH SW PAD ACT)       (poolavg x KH KW SH SW PAD ACT)
    (concat AXIS RANK x y)                (concat3 ..), (concat4 ..) and (concat5 ..) likewise
    (split_0 (split AXIS x))              (split_1 (split AXIS x))
    (transpose x PERM SHUFFLE)            (reshape x SHAPE), where lists of integers are written 1_0
    (enlarge w LIKE), (enlarge KH KW w)   (merge w COUNT)
    (Iconv KH KW)   (Cpool KH KW)   Imatmul   Iewmul

The rules do not state where ``split`` cuts, or which shapes and ranks agree: these follow from types. Types are not
evaluated here: a fact about a term is stated as a fact about another term with fewer operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, collected, error
from tensat_dl.core.words import did_you_mean, plural
from tensat_dl.lang.sexpr.reader import Atom, SExpr, SForm
from tensat_dl.ops.kinds import article

#: What stands at a place among an operator's arguments.
Kind = Literal["tensor", "number", "padding", "activation", "list", "flag"]

T: Kind = "tensor"
N: Kind = "number"
_POOL: tuple[Kind, ...] = (T, N, N, N, N, "padding", "activation")
SIGNATURES: Mapping[str, tuple[Kind, ...]] = {
    "ewadd": (T, T),
    "ewmul": (T, T),
    "smul": (T, T),
    "matmul": ("activation", T, T),
    "conv2d": (N, N, "padding", "activation", T, T),
    "relu": (T,),
    "tanh": (T,),
    "sigmoid": (T,),
    "poolmax": _POOL,
    "poolavg": _POOL,
    "transpose": (T, "list", "flag"),
    "reshape": (T, "list"),
    "enlarge": (T, T),
    "merge": (T, N),
    "concat": (N, N, T, T),
    "concat3": (N, N, T, T, T),
    "concat4": (N, N, T, T, T, T),
    "concat5": (N, N, T, T, T, T, T),
    "split": (N, T),
    "split_0": (T,),
    "split_1": (T,),
    "Iconv": (N, N),
    "Cpool": (N, N),
    "Imatmul": (),
    "Iewmul": (),
}
#: TASO states the new size of a kernel, TENSAT a kernel of this size.
ENLARGE: tuple[Kind, ...] = (N, N, T)
#: Operators that stand in no rule, and why.
_NO_RULES = {
    "input": "rules are about any tensors: write a variable such as `?x`",
    "weight": "rules are about any tensors: write a variable such as `?x`",
    "noop": "a multi-pattern rule has two lines instead of a `noop`",
}
#: The modes that numbers stand for.
ACTIVATIONS = {0: "none", 1: "sigmoid", 2: "relu", 3: "tanh"}
PADDINGS = {0: "same", 1: "valid"}
_VALUES: Mapping[Kind, Mapping[int, str]] = {
    "activation": ACTIVATIONS,
    "padding": PADDINGS,
    "flag": {0: "keep the layout", 1: "change the layout"},
}
_WORDS: Mapping[Kind, str] = {"number": "an integer", "list": "integers joined by `_`, such as `1_0`"}
_LARGEST = 10**9


@dataclass(frozen=True, slots=True)
class SVariable:
    """``?name``: a tensor, or where a parameter stands its value."""

    name: str
    span: Span = field(compare=False, repr=False)


#: A parameter: an integer, integers, or a variable for one.
Parameter = int | tuple[int, ...] | SVariable


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator applied to terms. ``parameters`` are in the order of its arguments."""

    op: str
    parameters: tuple[Parameter, ...]
    operands: tuple[Term, ...]
    span: Span = field(compare=False, repr=False)


Term = SVariable | Apply


@dataclass
class STerms:
    """Makes terms of trees. ``kinds`` says what each variable of a rule stands for."""

    kinds: dict[str, Kind] = field(default_factory=dict)

    def term(self, tree: SExpr) -> Term:
        """The term of a tree in a tensor's place. Raises `TsrError` with all problems in it."""
        if isinstance(tree, Atom):
            if tree.text.startswith("?"):
                return self._variable(tree, "tensor")
            if SIGNATURES.get(tree.text) == ():  # constants go without parentheses
                return Apply(tree.text, (), (), tree.span)
            raise error(tree.span, *_no_tensor(tree.text))
        by_size = tree.head.text == "enlarge" and len(tree.items) == len(ENLARGE)
        signature = ENLARGE if by_size else SIGNATURES.get(tree.head.text)
        if signature is None:
            raise error(tree.head.span, *_unknown(tree.head.text))
        if len(tree.items) != len(signature):
            raise error(tree.span, *_arity(tree, signature))
        parameters: list[Parameter] = []
        operands: list[Term] = []
        problems: list[Diagnostic] = []
        for item, kind in zip(tree.items, signature, strict=True):
            with collected(problems):
                if kind == "tensor":
                    operands.append(self.term(item))
                else:
                    parameters.append(self._parameter(item, kind))
        if problems:
            raise TsrError(problems)
        term = Apply(tree.head.text, tuple(parameters), tuple(operands), tree.span)
        _refuse_pairs(term)
        return term

    def _variable(self, atom: Atom, kind: Kind) -> SVariable:
        name = atom.text[1:]
        if not name:
            raise error(atom.span, "a variable has a name", "write `?x`")
        known = self.kinds.setdefault(name, kind)
        if known != kind:
            raise error(
                atom.span, f"`?{name}` is {article(known)} elsewhere, and {article(kind)} here", "rename one"
            )
        return SVariable(name, atom.span)

    def _parameter(self, item: SExpr, kind: Kind) -> Parameter:
        if isinstance(item, SForm):
            raise error(item.span, f"{article(kind)} stands here, not a tensor", _expected(kind))
        if item.text.startswith("?"):
            return self._variable(item, kind)
        if kind == "list":
            if re.fullmatch(r"[0-9]{1,9}(_[0-9]{1,9})*", item.text):
                return tuple(int(part) for part in item.text.split("_"))
            raise error(item.span, f"`{item.text}` is no list", _expected(kind))
        if not re.fullmatch(r"[0-9]+", item.text):
            raise error(item.span, f"`{item.text}` is no {kind}", _expected(kind))
        value = int(item.text) if len(item.text) < 20 else _LARGEST
        if value >= _LARGEST or (kind in _VALUES and value not in _VALUES[kind]):
            raise error(item.span, f"there is no {kind} {item.text}", _expected(kind))
        return value


def _refuse_pairs(term: Apply) -> None:
    """``split`` gives two tensors, of which split_0 and split_1 take one."""
    for operand in term.operands:
        is_split = is_apply(operand, "split")
        if is_split and not term.op.startswith("split_"):
            raise error(operand.span, "`split` gives two tensors", "take one: `(split_0 (split ..))`")
        if term.op.startswith("split_") and not is_split:
            raise error(operand.span, f"`{term.op}` takes a `split`", f"write `({term.op} (split AXIS x))`")


def _expected(kind: Kind) -> str:
    if kind in _VALUES:
        listed = ", ".join(f"{number} ({meaning})" for number, meaning in _VALUES[kind].items())
        return f"{article(kind)} is one of {listed}, or a variable"
    return f"write {_WORDS[kind]}, or a variable"


def _unknown(op: str) -> tuple[str, str]:
    if op in _NO_RULES:
        return f"`{op}` does not stand in rules", _NO_RULES[op]
    hint = did_you_mean(op, SIGNATURES) or f"operators are {', '.join(SIGNATURES)}"
    return f"unknown operator `{op}`", hint


def _no_tensor(text: str) -> tuple[str, str]:
    if text in SIGNATURES:
        return f"`{text}` has arguments", f"write `({text} ..)`"
    if re.fullmatch(r"-?[\d.]+", text):
        return f"a tensor stands here, not the number {text}", "write a variable such as `?x`"
    return f"`{text}` is no tensor", f"variables are written with a question mark: `?{text}`"


def _arity(tree: SForm, signature: tuple[Kind, ...]) -> tuple[str, str]:
    n = len(signature)
    places = " ".join("x" if kind == "tensor" else kind.upper() for kind in signature)
    form = f"its form is `({' '.join((tree.head.text, places)).strip()})`"
    if not n:
        form = f"write `{tree.head.text}`"
    return (
        f"`{tree.head.text}` takes {n or 'no'} {plural(n, 'argument')}, not {len(tree.items)}",
        form,
    )


def subterms(term: Term) -> Iterator[Term]:
    """A term and all terms in it, operands first."""
    if isinstance(term, Apply):
        for operand in term.operands:
            yield from subterms(operand)
    yield term


def all_terms(terms: Iterable[Term]) -> list[Term]:
    """The terms and all terms in them, each once, operands first."""
    return list(dict.fromkeys(t for term in terms for t in subterms(term)))


def is_apply(term: Term, op: str) -> bool:
    return isinstance(term, Apply) and term.op == op


def applied(term: Term) -> Apply:
    assert isinstance(term, Apply)
    return term


@dataclass
class Classes:
    """Terms that are known to be alike in some way."""

    parent: dict[Term, Term] = field(default_factory=dict)

    def root(self, term: Term) -> Term:
        while term in self.parent:
            term = self.parent[term]
        return term

    def join(self, a: Term, b: Term) -> bool:
        """Whether it was not known before that the two are alike."""
        a, b = self.root(a), self.root(b)
        if a != b:
            self.parent[b] = a
        return a != b


def variables(term: Term) -> Iterator[SVariable]:
    """Every occurrence of a variable, of tensors and of parameters."""
    for part in subterms(term):
        if isinstance(part, SVariable):
            yield part
        else:
            yield from (p for p in part.parameters if isinstance(p, SVariable))


_UNARY = ("relu", "tanh", "sigmoid")
_ELEMENTWISE = (*_UNARY, "ewadd", "ewmul", "smul")
_POOLS = ("poolmax", "poolavg")
_RANK_4 = ("conv2d", "enlarge", "merge", "Iconv", "Cpool", *_POOLS)

#: Axes that an operator keeps of its first operand.
_FIRST_AXES = {"conv2d": (0,), "poolmax": (0, 1), "poolavg": (0, 1), "enlarge": (0, 1), "merge": (0,)}


def is_concat(term: Term) -> bool:
    return isinstance(term, Apply) and term.op.startswith("concat")


def same_shape(term: Term) -> Term:
    """A term of the same shape: operators do not broadcast, so elementwise ones keep their operand's."""
    while isinstance(term, Apply) and term.op in _ELEMENTWISE:
        term = term.operands[0]
    return term


def rank_of(term: Term) -> SVariable | int | None:
    """The rank of a term: a number, that of a variable, or None where nothing says it."""
    while isinstance(term, Apply):
        if term.op in _RANK_4:
            return 4
        if is_concat(term):
            said = term.parameters[1]
            return said if isinstance(said, int) else None
        if term.op in ("transpose", "reshape"):
            listed = term.parameters[0]
            return len(listed) if isinstance(listed, tuple) else None
        if not term.operands:
            return None
        term = term.operands[0]
    return term


def dimension(term: Term, axis: Parameter) -> tuple[Term, Parameter]:
    """Another term and its axis that is as long as an axis of a term."""
    while isinstance(term, Apply):
        op, operands = term.op, term.operands
        if op == "conv2d" and axis == 1:
            term, axis = operands[1], 0
        elif (
            op in _ELEMENTWISE
            or (op in _FIRST_AXES and axis in _FIRST_AXES[op])
            or (is_concat(term) and _differ(term.parameters[0], axis))
        ):
            term = operands[0]
        else:
            break
    return term, axis


def _differ(a: Parameter, b: Parameter) -> bool:
    """Whether two axes are known to be different ones."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def cut(term: Term, axis: Parameter) -> tuple[Term, Term, Parameter] | None:
    """Where ``split`` cuts a term along an axis: after as many elements as the first of two tensors has along an
    axis of its own. These are the operands of the concatenation that was made last; None if it cannot be told which
    that is."""
    if not isinstance(term, Apply):
        return None
    op, operands = term.op, term.operands
    if is_concat(term):
        if term.parameters[0] == axis:
            return (*operands, axis) if len(operands) == 2 else None
        return _agreeing([cut(operand, axis) for operand in operands])
    if op in _UNARY or (op in _POOLS and axis in (0, 1)):
        return cut(operands[0], axis)
    if op in ("ewadd", "ewmul"):
        return _agreeing([cut(operand, axis) for operand in operands])
    if op == "smul" or (op == "enlarge" and axis in (0, 1)):
        return cut(operands[0], axis)
    if op == "conv2d" and axis == 0:
        return cut(operands[0], 0)
    if op == "conv2d" and axis == 1:
        return cut(operands[1], 0)
    if op == "matmul":
        rows, columns = operands
        if _is_from_the_end(rows, axis, 2):
            return cut(rows, axis)
        if _is_from_the_end(columns, axis, 1):
            return cut(columns, axis)
    return None


def _agreeing(cuts: list[tuple[Term, Term, Parameter] | None]) -> tuple[Term, Term, Parameter] | None:
    """Where operands of one shape are all cut: those that know it must agree."""
    known = {c for c in cuts if c is not None}
    return known.pop() if len(known) == 1 else None


def _is_from_the_end(term: Term, axis: Parameter, place: int) -> bool:
    """Whether an axis is the last (1) or the last but one (2) of a matrix that some concatenation makes."""
    rank = rank_of(term)
    return cut(term, axis) is not None and isinstance(rank, int) and axis == rank - place
