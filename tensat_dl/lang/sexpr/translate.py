"""One S-expression rule as a rule of the .tsr language.

What TASO's conventions imply is written as conditions: elementwise operands have one shape, and the operands of
``concat`` the rank that it names. Tensors have floats: where it matters, the condition says so. A kernel that is
enlarged to a size keeps its centre. ``split`` gets the sizes of what was concatenated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tensat_dl.core.diagnostics import Span, error
from tensat_dl.lang import ast
from tensat_dl.lang.sexpr import taso_terms as taso
from tensat_dl.lang.sexpr.taso_terms import Apply, Parameter, SVariable, Term


@dataclass
class Translation:
    """The translation of a rule with one output for each source.

    ``names`` are those of its variables, ``taken`` words that are not to be used as further names. Terms that a
    condition or a size is about are bound to names: those of the left side in ``left``, others in ``right``. ``free``
    are variables for the open attributes of a matched constant.
    """

    sources: Sequence[Term]
    targets: Sequence[Term]
    names: Mapping[str, str]
    taken: frozenset[str]
    left: dict[Term, str] = field(default_factory=dict)
    right: dict[Term, str] = field(default_factory=dict)
    outputs: dict[Term, str] = field(default_factory=dict)
    free: dict[tuple[Term, int, str], str] = field(default_factory=dict)

    def rule(self, name: str, doc: str, span: Span) -> ast.Rule:
        """The rule. Raises `TsrError` for what has no meaning in its place."""
        self._sides(span)  # names what has to be named
        left, right = self._sides(span)
        return ast.Rule(name, left, right, False, None, doc, span, span=span)

    def _sides(self, span: Span) -> tuple[ast.RuleSide, ast.RuleSide]:
        if len(self.sources) > 1:
            for source in self.sources:
                self._output(source)
        where = [*self._shapes(), *self._ranks(), *self._fitting(), *self._centres(), *self._floats()]
        right = self._right()
        left: list[ast.Bind] = []
        for term in taso.all_terms(self.sources):
            if term in self.left:
                left.append(_bind([self.left[term]], self._operator(term, self.left), term.span))
        for source in self.sources:
            named = [self.outputs[source]] if source in self.outputs else []
            left.append(_bind(named, self._value(source, self.left), source.span))
        return ast.RuleSide(tuple(left), tuple(where), span=span), ast.RuleSide(tuple(right), (), span=span)

    def _right(self) -> list[ast.Bind]:
        known = {**self.left, **self.right}
        results: list[ast.Bind] = []
        done: set[int] = set()
        for i, target in enumerate(self.targets):
            if i in done:
                continue
            other = self._other_part(i)
            if other is not None:
                first, second = (i, other) if taso.is_apply(target, "split_0") else (other, i)
                results.append(self._split(first, second, known))
                done.add(other)
                continue
            named = [self.outputs[self.sources[i]]] if self.sources[i] in self.outputs else []
            results.append(_bind(named, self._value(target, known), target.span))
        made = [
            _bind([self.right[term]], self._operator(term, known), term.span)
            for term in taso.all_terms(self.targets)
            if term in self.right
        ]
        return [*made, *results]

    def _other_part(self, i: int) -> int | None:
        """Which target is the other part of the split of which target i is one part, if any is."""
        target = self.targets[i]
        if not isinstance(target, Apply) or target.op not in ("split_0", "split_1"):
            return None
        other = Apply("split_1" if target.op == "split_0" else "split_0", (), target.operands, target.span)
        found = [j for j, t in enumerate(self.targets) if j > i and t == other]
        return found[0] if found else None

    def _split(self, first: int, second: int, known: Mapping[Term, str]) -> ast.Bind:
        (split,) = taso.applied(self.targets[first]).operands
        whole, axis, sizes = self._cut(taso.applied(split))
        attrs = (ast.keyword("axis", axis), ast.keyword("sizes", ast.ListExpr(tuple(sizes), span=split.span)))
        call = ast.call("split", [self._value(whole, known)], attrs, split.span)
        return _bind([self.outputs[self.sources[i]] for i in (first, second)], call, split.span)

    def _cut(self, split: Apply) -> tuple[Term, ast.Expr, list[ast.Expr]]:
        """The term that a split cuts, the axis, and the sizes."""
        (whole,), (axis,) = split.operands, split.parameters
        where = taso.cut(whole, axis)
        if where is None:
            hint = "it cuts where the operands of a `concat` along its axis met, and there is none here"
            raise error(split.span, "where this `split` cuts is not known", hint)
        first, second, along = where
        return whole, self._number(axis, split.span), [self._dim(first, along), self._dim(second, along)]

    # ---- conditions --------------------------------------------------------------------------------------

    def _shapes(self) -> list[ast.Expr]:
        """Operands of elementwise operators have one shape. Those of the targets are asked for where the source
        has both, as otherwise the type of the result tells."""
        classes = taso.Classes()
        found: list[ast.Expr] = []
        matched = set(taso.all_terms(self.sources))
        for side in (self.sources, self.targets):
            for term in taso.all_terms(side):
                if not isinstance(term, Apply) or term.op not in ("ewadd", "ewmul"):
                    continue
                a, b = map(taso.same_shape, term.operands)
                if any(taso.is_apply(x, "Iewmul") for x in (a, b)) or not (
                    side is self.sources or {a, b} <= matched
                ):
                    continue
                if classes.join(a, b):
                    found.append(_equal(self._about("shape", a), self._about("shape", b)))
        return found

    def _ranks(self) -> list[ast.Expr]:
        """Operands of concatenations have the rank that these name. It is asked of one variable of those that have
        one rank, and of none where an operator says it."""
        classes = taso.Classes()
        terms = [
            t for t in (*taso.all_terms(self.sources), *taso.all_terms(self.targets)) if isinstance(t, Apply)
        ]
        asked: dict[Term, int] = {}
        for term in terms:
            of = [r for r in map(taso.rank_of, term.operands) if r is not None]
            if taso.is_concat(term):
                rank = term.parameters[1]
                for operand in term.operands:
                    has = taso.rank_of(operand)
                    if isinstance(rank, int) and isinstance(has, int) and rank != has:
                        message = f"`{term.op}` says that its operands have rank {rank}"
                        raise error(operand.span, f"{message}, and this one has rank {has}")
                asked |= {r: rank for r in of if isinstance(r, SVariable) and isinstance(rank, int)}
            if taso.is_concat(term) or term.op in ("matmul", "ewadd", "ewmul"):
                alike = [r for r in of if isinstance(r, SVariable)]
                for a, b in pairwise(alike):
                    classes.join(a, b)
        convolved = [
            o
            for t in taso.all_terms(self.sources)
            if taso.is_apply(t, "conv2d")
            for o in taso.applied(t).operands
        ]
        known = {(classes.root(r), 4) for r in map(taso.rank_of, convolved) if isinstance(r, SVariable)}
        found: list[ast.Expr] = []
        for variable, rank in asked.items():
            fact = (classes.root(variable), rank)
            if fact not in known:
                known.add(fact)
                found.append(_equal(self._about("rank", variable), ast.integer(rank, variable.span)))
        return found

    def _fitting(self) -> Iterator[ast.Expr]:
        """Constants inside a source have the channels, or the shape, of the operand beside them. (The type of the
        result says it of others.)"""
        for term in taso.all_terms(self.sources):
            if not isinstance(term, Apply) or term in self.sources or len(term.operands) != 2:
                continue
            for i, constant in enumerate(term.operands):
                other = term.operands[1 - i]
                if isinstance(other, Apply) and other.op in _CONSTANTS:
                    continue
                if (
                    term.op == "conv2d"
                    and i == 1
                    and (taso.is_apply(constant, "Iconv") or taso.is_apply(constant, "Cpool"))
                ):
                    yield _equal(self._free(term, i, "channels"), self._dim(other, 1))
                elif term.op == "ewmul" and taso.is_apply(constant, "Iewmul"):
                    yield _equal(self._free(term, i, "shape"), self._about("shape", taso.same_shape(other)))

    def _centres(self) -> Iterator[ast.Expr]:
        """A matched kernel is enlarged by as much on both sides."""
        matched = set(taso.all_terms(self.sources))
        for term in taso.all_terms((*self.sources, *self.targets)):
            if not isinstance(term, Apply) or term.op != "enlarge" or not term.parameters:
                continue
            (w,), two = term.operands, ast.integer(2, term.span)
            for axis, size in zip((2, 3), term.parameters, strict=True):
                if w in matched:
                    old, new = (
                        ast.Binary("%", n, two, span=term.span)
                        for n in (self._dim(w, axis), self._number(size, term.span))
                    )
                    yield _equal(old, ast.integer(size % 2, term.span) if isinstance(size, int) else new)

    def _floats(self) -> Iterator[ast.Expr]:
        """Means of integers are rounded, so what is computed with means is about floats."""
        terms = [t for t in taso.all_terms((*self.sources, *self.targets)) if isinstance(t, Apply)]
        pools = [t for t in terms if t.op == "poolavg"]
        computed = any(t.op in ("ewadd", "ewmul", "smul", "matmul", "conv2d") for t in terms)
        if pools and computed and not any(t.op in ("Cpool", "tanh", "sigmoid") for t in terms):
            (pooled,) = pools[0].operands
            variable = next(t for t in taso.subterms(pooled) if isinstance(t, SVariable))
            yield ast.call("is_float", [self._about("dtype", variable)], (), pooled.span)

    # ---- names -------------------------------------------------------------------------------------------

    def _about(self, function: str, term: Term) -> ast.Expr:
        """``function(term)``, where the term gets a name unless it is a variable."""
        return ast.call(function, [ast.Name(self._name(term), span=term.span)], (), term.span)

    def _dim(self, term: Term, axis: Parameter) -> ast.Expr:
        of, at = taso.dimension(term, axis)
        name = ast.Name(self._name(of), span=term.span)
        return ast.call("dim", [name, self._number(at, term.span)], (), term.span)

    def _name(self, term: Term) -> str:
        if isinstance(term, SVariable):
            return self.names[term.name]
        if term in self.sources:
            return self._output(term)
        for names in (self.left, self.right):
            if term in names:
                return names[term]
        names = self.left if term in taso.all_terms(self.sources) else self.right
        return names.setdefault(term, self._fresh("t"))

    def _output(self, source: Term) -> str:
        """The name of a result, which is bound on both sides."""
        if source not in self.outputs:
            self.outputs[source] = self._fresh("y")
        return self.outputs[source]

    def _fresh(self, letter: str) -> str:
        used = {*self.taken, *self.names.values(), *self.left.values(), *self.right.values()}
        used |= {*self.outputs.values(), *self.free.values()}
        return next(name for i in range(len(used) + 1) if (name := f"{letter}{i}") not in used)

    # ---- expressions -------------------------------------------------------------------------------------

    def _value(self, term: Term, known: Mapping[Term, str]) -> ast.Expr:
        """A tensor. Terms with a name are called by it."""
        if isinstance(term, SVariable):
            return ast.Name(self.names[term.name], span=term.span)
        if term in known:
            return ast.Name(known[term], span=term.span)
        return self._operator(term, known)

    def _operator(self, term: Term, known: Mapping[Term, str]) -> ast.Expr:
        term = taso.applied(term)
        op, span, given = term.op, term.span, term.parameters
        if op in ("split_0", "split_1"):
            return self._part(term, known)
        if op in ("merge", "Iconv", "Cpool", "Imatmul", "Iewmul"):
            raise error(span, *_MISPLACED[op])
        if op == "enlarge":
            small, *like = term.operands
            if like:
                kernel: ast.Expr = ast.ListExpr((self._dim(like[0], 2), self._dim(like[0], 3)), span=span)
            else:
                kernel = self._pair(given, span)
            return ast.call("enlarge", [self._value(small, known)], (ast.keyword("kernel", kernel),), span)
        values = [self._operand(term, i, known) for i in range(len(term.operands))]
        attrs: list[ast.KeywordArg | None] = []
        match op:
            case "matmul":
                attrs = [self._activation(given[0], span)]
            case "conv2d":
                attrs = [
                    self._stride(given[0:2], span),
                    self._padding(given[2], span),
                    self._activation(given[3], span),
                ]
            case "poolmax" | "poolavg":
                attrs = [
                    ast.keyword("kernel", self._pair(given[0:2], span)),
                    self._stride(given[2:4], span),
                    self._padding(given[4], span),
                    self._activation(given[5], span),
                ]
            case "transpose":
                attrs = [ast.keyword("perm", self._number(given[0], span))]
            case "reshape":
                attrs = [ast.keyword("shape", self._number(given[0], span))]
            case "concat" | "concat3" | "concat4" | "concat5":
                op, attrs = "concat", [ast.keyword("axis", self._number(given[0], span))]
        return ast.call(op, values, [a for a in attrs if a is not None], span)

    def _operand(self, term: Apply, i: int, known: Mapping[Term, str]) -> ast.Expr:
        """An operand, which may be a constant that has its type from the operand beside it."""
        operand, span = term.operands[i], term.operands[i].span
        if not isinstance(operand, Apply):
            return self._value(operand, known)
        other = term.operands[1 - i] if len(term.operands) == 2 else operand
        if term.op == "conv2d" and i == 1 and operand.op == "merge":
            (weight,), (count,) = operand.operands, operand.parameters
            groups = ast.Binary("/", self._dim(other, 1), self._dim(weight, 1), span=span)
            merged = (ast.keyword("groups", groups), ast.keyword("count", self._number(count, span)))
            return ast.call("merge", [self._value(weight, known)], merged, span)
        attrs = self._constant(term, i, operand, other) if operand.op in _CONSTANTS else None
        if attrs is not None:
            return ast.call(_CONSTANTS[operand.op], [], attrs, span)
        return self._value(operand, known)

    def _constant(
        self, term: Apply, i: int, constant: Apply, other: Term
    ) -> tuple[ast.KeywordArg, ...] | None:
        """The attributes of a constant that is operand i of a term; None if it is none, or does not belong there.

        In a target its type is computed from the other operand's. A source matches any: what does not fit the other
        operand is ill-typed, changes the type of the result, or fails a condition (see `_fitting`).
        """
        span, matched = constant.span, term in taso.all_terms(self.sources)

        def free(name: str) -> ast.KeywordArg:
            return ast.keyword(name, self._free(term, i, name))

        same = other if isinstance(other, SVariable) else taso.same_shape(other)
        dtype = free("dtype") if matched else ast.keyword("dtype", self._about("dtype", same))
        match term.op, i, constant.op:
            case "conv2d", 1, "Iconv" | "Cpool":
                kernel = ast.keyword("kernel", self._pair(constant.parameters, span))
                channels = free("channels") if matched else ast.keyword("channels", self._dim(other, 1))
                groups = (free("groups"),) if matched and constant.op == "Iconv" else ()
                return (channels, *groups, kernel, dtype)
            case "matmul", _, "Imatmul":
                if matched:
                    return (free("n"), dtype)
                last = ast.Unary("-", ast.integer(1 if i == 1 else 2, span), span=span)
                name = ast.Name(self._name(other), span=span)
                return (ast.keyword("n", ast.call("dim", [name, last], (), span)), dtype)
            case "ewmul", _, "Iewmul":
                one = ast.keyword("value", ast.Const(1.0, "float", "1.0", span=span))
                shape = free("shape") if matched else ast.keyword("shape", self._about("shape", same))
                return (one, dtype, shape)
        return None

    def _free(self, term: Apply, i: int, name: str) -> ast.Name:
        """The variable for an open attribute of a constant that is operand i of a term."""
        place = (term, i, name)
        if place not in self.free:
            self.free[place] = self._fresh(name[0])
        return ast.Name(self.free[place], span=term.operands[i].span)

    def _part(self, term: Apply, known: Mapping[Term, str]) -> ast.Expr:
        """One part of a split alone: a slice."""
        whole, axis, (first, second) = self._cut(taso.applied(term.operands[0]))
        ends: tuple[ast.Expr, ast.Expr] = (ast.integer(0, term.span), first)
        if term.op == "split_1":
            ends = first, ast.Binary("+", first, second, span=term.span)
        attrs = (ast.keyword("axis", axis), ast.keyword("start", ends[0]), ast.keyword("stop", ends[1]))
        return ast.call("slice", [self._value(whole, known)], attrs, term.span)

    def _activation(self, mode: Parameter, span: Span) -> ast.KeywordArg | None:
        if mode == 0:
            return None
        word = taso.ACTIVATIONS[mode] if isinstance(mode, int) else None
        return ast.keyword("act", ast.Name(word, span=span) if word else self._number(mode, span))

    def _padding(self, mode: Parameter, span: Span) -> ast.KeywordArg | None:
        """The attribute ``pads``; None for `valid`, its default."""
        assert isinstance(mode, int)  # a rule is translated once for each mode
        word = taso.PADDINGS[mode]
        return None if word == "valid" else ast.keyword("pads", ast.Name(word, span=span))

    def _stride(self, pair: Sequence[Parameter], span: Span) -> ast.KeywordArg | None:
        return None if pair[0] == pair[1] == 1 else ast.keyword("stride", self._pair(pair, span))

    def _pair(self, pair: Sequence[Parameter], span: Span) -> ast.Expr:
        first, second = pair
        if first == second:
            return self._number(first, span)
        return ast.ListExpr((self._number(first, span), self._number(second, span)), span=span)

    def _number(self, value: Parameter, span: Span) -> ast.Expr:
        if isinstance(value, SVariable):
            return ast.Name(self.names[value.name], span=value.span)
        if isinstance(value, tuple):
            return ast.ListExpr(tuple(ast.integer(v, span) for v in value), span=span)
        return ast.integer(value, span)


#: TASO's constants.
_CONSTANTS = {"Iconv": "conv_identity", "Cpool": "conv_average", "Imatmul": "eye", "Iewmul": "fill"}
_MISPLACED = {
    "merge": ("`merge` is about the groups of a convolution", "it stands as the weight of a `conv2d`"),
    "Iconv": ("`Iconv` has its channels from a convolution's input", "it stands as the weight of a `conv2d`"),
    "Cpool": ("`Cpool` has its channels from a convolution's input", "it stands as the weight of a `conv2d`"),
    "Imatmul": ("`Imatmul` has its size from the other factor", "it stands as an operand of a `matmul`"),
    "Iewmul": ("`Iewmul` has its shape from the other factor", "it stands as an operand of an `ewmul`"),
}


def _bind(names: Sequence[str], value: ast.Expr, span: Span) -> ast.Bind:
    return ast.Bind(ast.targets(names, span), value, span=span)


def _equal(a: ast.Expr, b: ast.Expr) -> ast.Expr:
    return ast.Binary("==", a, b, span=a.span)
