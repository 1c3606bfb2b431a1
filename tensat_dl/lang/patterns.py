"""One side of a rule, flattened: each operator becomes a `PatternNode`, every name is resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, error
from tensat_dl.core.expression import every, is_every, is_number, names_of, number, with_name
from tensat_dl.core.rule import PatternNode
from tensat_dl.core.words import did_you_mean, plural
from tensat_dl.lang import ast
from tensat_dl.lang.pattern_names import ELEMENT, PatternNames, Silent
from tensat_dl.ops.calls import check_arity, check_attrs
from tensat_dl.ops.compositions import neighbour
from tensat_dl.ops.kinds import article, kind_of, want
from tensat_dl.ops.numbers import written
from tensat_dl.ops.table import INFIX, NEGATION
from tensat_dl.ops.values import FUNCTIONS

LIST = "list of tensors"
BOTH = "a source has `each` statements or lists of operands, and not both"


@dataclass
class PatternBuilder(PatternNames):
    """The nodes of one side, while it is flattened."""

    nodes: list[PatternNode] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    fresh: int = 0
    loop: str = ""  #: the index of the last `for` among operands

    def side(self, side: ast.RuleSide) -> list[str]:
        """Flattens a side; the names of results of statements without a name. Records problems."""
        values = []
        for stmt in side.stmts:
            try:
                values += self._statement(stmt)
            except Silent:
                self._failed(stmt)
            except TsrError as e:
                self.problems += e.diagnostics
                self._failed(stmt)
        return values

    def _failed(self, stmt: ast.Bind) -> None:
        for t in stmt.targets:
            self.bound.setdefault(t.name, t.span)
            self.failed.add(t.name)
        if self.is_source:  # a variable that the rest of the statement would have bound is not unknown later
            for name in names_of(stmt.value):
                if name.id not in self.kinds:
                    self.failed.add(name.id)

    # ---- statements --------------------------------------------------------------------------------------

    def _statement(self, stmt: ast.Bind) -> list[str]:
        if stmt.each is not None:
            self._group(stmt.each, stmt)
        value = stmt.value
        if not stmt.targets:
            return [self.tensor(value, None, stmt.each)]
        if isinstance(value, ast.Call) and value.fn == "split":
            self._split(stmt.targets, value)
            return []
        if len(stmt.targets) > 1:
            at = stmt.targets[0].span.to(stmt.targets[-1].span)
            raise error(at, "only `split` gives several values in a rule")
        (target,) = stmt.targets
        name = self._target(target, stmt.each)
        self._refuse_second(name, target.span)
        if not self.is_source and not self._is_tensor(value):
            self._let(name, value)
        elif not self.is_source and isinstance(value, ast.Name | ast.Index):
            self.alias[name] = self.tensor(value, None, stmt.each)
            self.kinds.setdefault(name, LIST if name in self.members else "tensor")
            return []
        elif isinstance(value, ast.Name | ast.Index):
            hint = "a lone variable would match every tensor"
            raise error(value.span, "the source pattern has no operator here", hint)
        else:
            self.tensor(value, name, stmt.each)
        self.bound[name] = target.span
        return []

    def _group(self, index: str, stmt: ast.Bind) -> None:
        if self.index == ELEMENT and self.is_source:
            raise error(stmt.span, BOTH, "write two rules")
        if self.index == ELEMENT:
            hint = "map over a list among operands: `concat(f(x[i]) for i in 0..len(x); axis = k)`"
            raise error(stmt.span, "`each` on the right without a group on the left", hint)
        if self.index is None and not self.is_source:
            hint = "members are what an `each` statement on the left binds"
            raise error(stmt.span, "`each` on the right without a group on the left", hint)
        if self.index not in (None, index):
            hint = f"write `each {self.index}: ..`"
            raise error(stmt.span, f"the index of this rule's group is `{self.index}`, not `{index}`", hint)
        self.index = index
        self.kinds[index] = "integer"

    def _refuse_second(self, name: str, at: Span) -> None:
        if name in self.bound or (self.is_source and name in self.kinds):
            first = self.bound.get(name)
            hint = f"the first time in line {first.source.position(first.start)[0]}" if first else ""
            raise error(at, f"`{name}` is bound twice", hint)
        if not self.is_source and name in self.kinds and self.kinds[name] not in ("tensor", LIST):
            raise error(at, f"`{name}` is {article(self.kinds[name])} on the left", "choose another name")

    def _let(self, name: str, value: ast.Expr) -> None:
        self.kinds[name] = self._kind(value)
        self.lets.append((name, value))
        if isinstance(value, ast.Name) and value.id in self.chosen:
            self.chosen[name] = self.chosen[value.id]

    def _target(self, target: ast.LValue, each: str | None) -> str:
        if target.index is None and not target.every:
            if each is not None:
                hint = f"write `{target.name}[{each}]`"
                raise error(target.span, f"`{target.name}` has no index in an `each`", hint)
            return target.name
        ok = isinstance(target.index, ast.Name) and target.index.id == each and each is not None
        if not ok:
            hint = f"write `each i: {target.name}[i] = ...`"
            raise error(target.span, "only `each` statements bind indexed names", hint)
        self.members.add(target.name)
        return target.name

    def _is_tensor(self, expr: ast.Expr) -> bool:
        match expr:
            case ast.Call(fn):
                return fn not in FUNCTIONS
            case ast.Name(id):
                return id in self.alias or self.kinds.get(id) in ("tensor", LIST)
            case ast.Index(ast.Name(id), _):
                return id in self.members
            case ast.Binary(op, left, right) if op in INFIX:
                return op == "@" or self._is_tensor(left) or self._is_tensor(right)
            case ast.Unary("-", operand):
                return self._is_tensor(operand)
        return False

    def _kind(self, expr: ast.Expr) -> str:
        """The kind of an expression of numbers. Raises `TsrError` for what it can't use."""
        if any(n.id in self.failed and n.id not in self.kinds for n in names_of(expr)):
            raise Silent
        return kind_of(expr, self.kinds)

    # ---- split -------------------------------------------------------------------------------------------

    def _split(self, targets: Sequence[ast.LValue], call: ast.Call) -> None:
        """``(a, b) = split(y; axis, sizes)`` and ``y[..] = split(m; axis, sizes)``: slices, each from where the one
        before it ends."""
        given = {a.name: a.value for a in call.attrs}
        args = call.args if isinstance(call.args, tuple) else ()
        if set(given) != {"axis", "sizes"} or len(call.attrs) != 2 or len(args) != 1:
            form = "its form is `split(x; axis = k, sizes = [m, n])`"
            raise error(call.span, "`split` takes one tensor, one `axis` and one `sizes`", form)
        if self.is_source:
            raise error(call.span, "`split` stands only on the right", "in a source pattern write slices")
        if targets[0].index is not None:
            hint = f"write `{targets[0].name}[..] = split(..)`"
            raise error(targets[0].span, "`split` binds all members at once", hint)
        whole, axis, sizes = self.tensor(args[0], None, None), given["axis"], given["sizes"]
        want(axis, self.kinds, ("integer",))
        want(sizes, self.kinds, ("list of integers",))
        if targets[0].every:
            self._split_members(targets[0], whole, axis, sizes, call.span)
            return
        if not isinstance(sizes, ast.ListExpr) or not isinstance(sizes.items, tuple):
            raise error(sizes.span, "`sizes` is written out as a list here, such as [dim(a, 0), dim(b, 0)]")
        if len(sizes.items) != len(targets):
            n = len(sizes.items)
            message = f"{n} {plural(n, 'size')} for {len(targets)} names"
            raise error(sizes.span, message, "give one size for each name")
        start: ast.Expr = ast.integer(0, call.span)
        for target, size in zip(targets, sizes.items, strict=True):
            self._target(target, None)
            self._part(target, whole, axis, start, size, None, call.span)
            first = isinstance(start, ast.Const) and start.value == 0
            start = size if first else ast.Binary("+", start, size, span=call.span)

    def _split_members(
        self, target: ast.LValue, whole: str, axis: ast.Expr, sizes: ast.Expr, span: Span
    ) -> None:
        name = target.name
        if self.index is None:
            hint = f"name the parts: `({name}, b) = split(..)`"
            raise error(target.span, f"`{name}[..]` needs a group on the left", hint)
        self.lets.append((f"{name}.sizes", sizes))  # evaluated once, not once for each member
        i, every = ast.Name(self.index, span=span), ast.Name(f"{name}.sizes", span=span)
        start = ast.call("sum", [ast.Section(every, None, i, span=span)], (), span)
        self._part(target, whole, axis, start, ast.Index(every, i, span=span), self.index, span)

    def _part(
        self,
        target: ast.LValue,
        whole: str,
        axis: ast.Expr,
        start: ast.Expr,
        size: ast.Expr,
        each: str | None,
        span: Span,
    ) -> None:
        """One part of a split, or each member's: a slice."""
        self._refuse_second(target.name, target.span)
        stop = ast.Binary("+", start, size, span=span)
        attrs = (ast.keyword("axis", axis), ast.keyword("start", start), ast.keyword("stop", stop))
        self._add(target.name, "slice", (whole,), attrs, each, span)
        self.bound[target.name] = target.span

    def _add(
        self,
        result: str,
        op: str,
        args: tuple[str, ...],
        attrs: Sequence[ast.KeywordArg],
        each: str | None,
        span: Span,
    ) -> None:
        decl = self.ops[op]
        node = PatternNode(result, op, args, tuple(self.resolved(decl, k) for k in attrs), each, span)
        if each is not None:
            self.members.add(result)
        self.kinds[result] = LIST if each is not None else "tensor"
        self.nodes.append(node)

    # ---- expressions -------------------------------------------------------------------------------------

    def tensor(self, expr: ast.Expr, result: str | None, each: str | None) -> str:
        """Flattens an expression in tensor position; the name of its result."""
        args: tuple[ast.Expr, ...] | ast.EachIn
        match expr:
            case ast.Name(id):
                return self._variable(id, expr, False, each)
            case ast.Index(ast.Name(id), ast.Name(index)) if index == each and each is not None:
                return self._variable(id, expr, True, each)
            case ast.Index(base, _):
                raise error(expr.span, *self._stray_index(base, each))
            case ast.Binary(op, left, right) if op in INFIX:
                fn, args, attrs = INFIX[op], (left, right), ()
            case ast.Unary("-", operand):
                fn, args, attrs = NEGATION, (operand,), ()
            case ast.Call(fn, args, attrs):
                self._refuse_unknown(expr)
            case _:
                raise error(expr.span, "expected a tensor: a variable or an operator")
        decl = self.ops[fn]
        check_attrs(decl, attrs, expr.span)
        if isinstance(args, ast.EachIn):
            names, args = [self._mapped(args, each)], ()
        else:
            names = self._arguments(args, each)
        if not any(map(is_every, names)):
            check_arity(decl, len(names), expr.span)
        elif decl.max_inputs is not None:
            hint = f"its form is {decl.signature}"
            raise error(expr.span, f"`{decl.name}` takes no list of tensors", hint)
        like = neighbour(decl, (i for i, n in enumerate(names) if n and not is_every(n)))
        for position, literal in enumerate(args):  # none of those that a `for` makes
            if names[position] == "":
                names[position] = self._number(literal, None if like is None else names[like], each)
        self.check_attributes(decl, attrs)
        if result is None:
            result = self._fresh(fn)
        self._add(result, fn, tuple(names), attrs, each, expr.span)
        return result

    def _fresh(self, op: str) -> str:
        self.fresh += 1
        return f"{op}.{'l' if self.is_source else 'r'}{self.fresh - 1}"

    def _refuse_unknown(self, call: ast.Call) -> None:
        fn = call.fn
        if fn in ("input", "weight"):
            hint = "a name such as `x` matches any tensor"
            if fn == "weight":
                hint = "whether a tensor is computed from weights is a condition: `where weight(x)`"
            raise error(call.fn_span, f"`{fn}` is no operator", hint)
        if fn in FUNCTIONS:
            message = f"`{fn}` gives {article(FUNCTIONS[fn].result)}, where a tensor is needed"
            raise error(call.fn_span, message)
        if fn == "split":
            hint = "bind its parts: `(a, b) = split(..)`"
            raise error(call.fn_span, "`split` gives several tensors where one is needed", hint)
        if fn not in self.ops:
            raise error(call.fn_span, f"unknown operator `{fn}`", did_you_mean(fn, self.ops))
        if self.ops[fn].outputs:
            raise error(call.fn_span, f"`{fn}` has several outputs, which rules can't match yet")

    def _stray_index(self, base: ast.Expr, each: str | None) -> tuple[str, str]:
        name = base.id if isinstance(base, ast.Name) else "x"
        if each == ELEMENT:
            return f"elements are written with the index of their `for`: `{name}[{self.loop}]`", ""
        if each is not None:
            return f"members are written with the index of their `each`: `{name}[{each}]`", ""
        if self.index == ELEMENT:
            hint = f"write all of them, `{name}[..]`, or give the first a name of its own on the left"
            return f"one element of the list `{name}` is no operand", hint
        return f"`{name}` has an index outside of `each`", f"write `each i: y[i] = .. {name}[i] ..`"

    def _arguments(self, args: Sequence[ast.Expr], each: str | None) -> list[str]:
        """Names of operands; empty for a number, which needs its neighbours' element type."""
        names = []
        for a in args:
            if is_number(a) or (isinstance(a, ast.Name) and self.kinds.get(a.id) == "float"):
                names.append("")
            elif isinstance(a, ast.Section):
                names.append(self._whole_group(a))
            else:
                names.append(self.tensor(a, None, each))
        return names

    def _whole_group(self, section: ast.Section) -> str:
        base = section.base
        if not isinstance(base, ast.Name) or section.start is not None or section.stop is not None:
            name = base.id if isinstance(base, ast.Name) else "w"
            raise error(section.span, "a list is passed as a whole", f"write `{name}[..]`")
        if base.id in self.failed and base.id not in self.kinds:
            raise Silent
        if self.is_source:
            self._take_lists(section.span)
            return every(self._variable(base.id, base, True, ELEMENT))
        if base.id not in self.members:
            hint = did_you_mean(base.id, sorted(self.members))
            raise error(section.span, f"`{base.id}` is no list of this rule", hint)
        return every(self.alias.get(base.id, base.id))

    def _take_lists(self, at: Span) -> None:
        """Makes this a list rule, if it is none yet."""
        if self.index not in (None, ELEMENT):
            raise error(at, BOTH, f"members are matched one by one: `{self.index}` is the index of an `each`")
        self.index = ELEMENT
        self.kinds[ELEMENT] = "integer"

    def _mapped(self, each_in: ast.EachIn, each: str | None) -> str:
        """The operands ``f(x[i]) for i in 0..len(x)``: a node for each element of a list."""
        if each is not None:
            raise error(each_in.span, "a `for` among operands stands in no other `for` and in no `each`")
        if self.is_source:
            self._take_lists(each_in.span)
        elif self.index is None:
            hint = "a list is what a source takes as operands: `concat(x[..]; axis = k)`"
            raise error(each_in.span, "`for` among operands without a list on the left", hint)
        index = self.index
        assert index is not None
        self.loop = each_in.var
        self.loops.add(each_in.var)
        body = with_name(each_in.body, each_in.var, lambda span: ast.Name(index, span=span))
        name = self.tensor(body, None, index)
        match each_in.range:
            case ast.Range(ast.Const(0), ast.Call("len", (ast.Name(list_),))) if list_ in self.members:
                pass
            case _:
                listed = next((n.id for n in names_of(body) if n.id in self.members), None)
                if listed is None:
                    one = next((n.id for n in names_of(each_in.body)), "x")
                    hint = f"an element of a list is written `{one}[{each_in.var}]`"
                    message = f"this operand does not vary with `{each_in.var}`"
                    raise error(each_in.body.span, message, hint) from None
                hint = f"write `for {each_in.var} in 0..len({listed})`"
                raise error(each_in.range.span, "a `for` among operands takes the whole of a list", hint)
        if name not in self.members:
            raise error(each_in.body.span, f"this operand does not vary with `{each_in.var}`")
        return every(name)

    def _variable(self, name: str, expr: ast.Expr, member: bool, each: str | None) -> str:
        if name in self.alias:
            return self.alias[name]
        kind = self.kinds.get(name)
        if kind is None and name in self.failed:
            raise Silent
        if kind is None and not self.is_source:
            raise self.unbound(name, expr.span)
        if kind is None and self.is_source:
            if member:
                self.members.add(name)
            self.kinds[name] = LIST if member else "tensor"
        elif kind not in ("tensor", LIST):
            raise error(expr.span, f"`{name}` is {article(kind or '')}, not a tensor")
        elif (name in self.members) != member:
            varies = "does not vary" if member else "varies"
            of = "element" if self.index == ELEMENT else "member"
            one = (
                f"`{name}[i]` in a `for`" if self.index == ELEMENT else f"`{name}[{self.index}]` in an `each`"
            )
            hint = f"write `{name}`" if member else f"write {one}"
            if not member and not self.is_source and each is None:
                hint = f"write `{name}[..]` for all {of}s, or {one}"
            raise error(expr.span, f"`{name}` {varies} by {of}", hint)
        return name

    def _number(self, expr: ast.Expr, like: str | None, each: str | None) -> str:
        """A number in tensor position: a scalar constant of the element type of its neighbour."""
        if like is None:
            raise error(expr.span, "a number needs a tensor beside it, whose element type it takes")
        span = expr.span
        if is_number(expr) and (value := written(number(expr))) != number(expr):
            expr = ast.Const(value, "float", repr(value), span=span)
        base: ast.Expr = ast.Name(like, span=span)
        if like in self.members and each is not None:
            base = ast.Index(base, ast.Name(each, span=span), span=span)
        result = self._fresh("fill")
        if self.is_source:  # any element type: the consumer's own constraints tie it to its neighbour's
            dtype: ast.Expr = ast.Name(f"{result}.dtype", span=span)
            self.kinds[f"{result}.dtype"] = "word"
        else:
            dtype = ast.call("dtype", [base], (), span)
        shape = ast.ListExpr((), span=span)
        attrs = (ast.keyword("value", expr), ast.keyword("dtype", dtype), ast.keyword("shape", shape))
        # Each member has an element type of its own.
        own = each if like in self.members and not self.is_source else None
        self._add(result, "fill", (), attrs, own, span)
        return result
