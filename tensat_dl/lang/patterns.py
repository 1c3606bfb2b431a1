"""One side of a rule, flattened: each operator becomes a `PatternNode`, every name is resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean, error
from tensat_dl.core.expression import names_of
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, PatternNode, Variable
from tensat_dl.core.source import Span
from tensat_dl.core.types import DTYPES
from tensat_dl.lang import ast
from tensat_dl.lang.splits import Split
from tensat_dl.ops.calls import check_arity, check_attr_kinds, check_attrs, words
from tensat_dl.ops.functions import FUNCTIONS
from tensat_dl.ops.kinds import article, attribute_kind, fits, kind_of, want
from tensat_dl.ops.table import INFIX, AttrDecl, OpDecl, OpTable, coerce, constant, have_common_values, wanted
from tensat_dl.ops.typing import is_number, neighbour

LIST = "list of tensors"


@dataclass
class PatternBuilder:
    """What is known while one side is flattened. ``kinds`` has every name that an expression may use; those of
    tensors that vary by member are lists of tensors. The right side starts with the names of the left one."""

    ops: OpTable
    is_source: bool
    kinds: dict[str, str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    index: str | None = None
    nodes: list[PatternNode] = field(default_factory=list)
    lets: list[tuple[str, ast.Expr]] = field(default_factory=list)
    bound: dict[str, Span] = field(default_factory=dict)  #: results of statements of this side
    alias: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, list[AttrDecl]] = field(default_factory=dict)  #: what variables for words are values of
    failed: set[str] = field(default_factory=set)
    problems: list[Diagnostic] = field(default_factory=list)
    fresh: int = 0

    def side(self, side: ast.RuleSide) -> list[str]:
        """Flattens a side; the names of results of statements without a name. Records problems."""
        values = []
        for stmt in side.stmts:
            try:
                values += self._statement(stmt)
            except _Silent:
                self._failed(stmt)
            except TsrError as e:
                self.problems += e.diagnostics
                self._failed(stmt)
        return values

    def _failed(self, stmt: ast.RuleStmt) -> None:
        for t in stmt.targets:
            self.bound.setdefault(t.name, t.span)
            self.failed.add(t.name)
        if self.is_source:  # a variable that the rest of the statement would have bound is not unknown later
            for name in names_of(stmt.value):
                if name.id not in self.kinds:
                    self.failed.add(name.id)

    # ---- statements --------------------------------------------------------------------------------------

    def _statement(self, stmt: ast.RuleStmt) -> list[str]:
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

    def _group(self, index: str, stmt: ast.RuleStmt) -> None:
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
        return False

    def _kind(self, expr: ast.Expr) -> str:
        """The kind of an expression of numbers. Raises `TsrError` for what it can't use."""
        if any(n.id in self.failed and n.id not in self.kinds for n in names_of(expr)):
            raise _Silent
        return kind_of(expr, self.kinds)

    # ---- split -------------------------------------------------------------------------------------------

    def _split(self, targets: Sequence[ast.LValue], call: ast.Call) -> None:
        split = Split.of(call)
        if self.is_source:
            raise error(call.span, "`split` stands only on the right", "in a source pattern write slices")
        if targets[0].index is not None:
            hint = f"write `{targets[0].name}[..] = split(..)`"
            raise error(targets[0].span, "`split` binds all members at once", hint)
        whole = self.tensor(split.whole, None, None)
        want(split.axis, self.kinds, ("integer",))
        want(split.sizes, self.kinds, ("list of integers",))
        if targets[0].every:
            self._split_members(targets[0], split, whole)
            return
        for target, start, size in split.parts(targets):
            name = self._target(target, None)
            self._refuse_second(name, target.span)
            self._add(name, "slice", (whole,), split.cut(start, size), None, split.span)
            self.bound[name] = target.span

    def _split_members(self, target: ast.LValue, split: Split, whole: str) -> None:
        name = target.name
        if self.index is None:
            hint = f"name the parts: `({name}, b) = split(..)`"
            raise error(target.span, f"`{name}[..]` needs a group on the left", hint)
        self._refuse_second(name, target.span)
        self.members.add(name)
        sizes = f"{name}.sizes"
        self.lets.append((sizes, split.sizes))  # evaluated once, not once for each member
        start, size = split.member(sizes, self.index)
        self._add(name, "slice", (whole,), split.cut(start, size), self.index, split.span)
        self.bound[name] = target.span

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
        node = PatternNode(result, op, args, tuple(self._resolved(decl, k) for k in attrs), each, span)
        if each is not None:
            self.members.add(result)
        self.kinds[result] = LIST if each is not None else "tensor"
        self.nodes.append(node)

    # ---- expressions -------------------------------------------------------------------------------------

    def tensor(self, expr: ast.Expr, result: str | None, each: str | None) -> str:
        """Flattens an expression in tensor position; the name of its result."""
        match expr:
            case ast.Name(id):
                return self._variable(id, expr, False, each)
            case ast.Index(ast.Name(id), ast.Name(index)) if index == each and each is not None:
                return self._variable(id, expr, True, each)
            case ast.Index(base, _):
                raise error(expr.span, *self._stray_index(base, each))
            case ast.Binary(op, left, right) if op in INFIX:
                fn, args, attrs = INFIX[op], (left, right), ()
            case ast.Call(fn, args, attrs) if isinstance(args, tuple):
                self._refuse_unknown(expr)
            case ast.Call(_, ast.EachIn(body)):
                hint = f"write `{_list_name(body)}[..]`"
                if self.is_source:
                    hint = "a source matches single members: `each i: y[i] = f(x[i])`"
                raise error(expr.args.span, "rules take lists whole, without `for` among operands", hint)
            case _:
                raise error(expr.span, "expected a tensor: a variable or an operator")
        decl = self.ops[fn]
        check_attrs(decl, attrs, expr.span)
        names = self._arguments(args, each)
        if decl.max_inputs is not None or not any(n.endswith("[..]") for n in names):
            check_arity(decl, len(names), expr.span)
        like = neighbour(decl, (i for i, n in enumerate(names) if n and not n.endswith("[..]")))
        for position, number in enumerate(args):
            if names[position] == "":
                names[position] = self._number(number, None if like is None else names[like], each)
        self._attributes(decl, attrs)
        if result is None:
            result = f"{fn}.{'l' if self.is_source else 'r'}{self.fresh}"
            self.fresh += 1
        self._add(result, fn, tuple(names), attrs, each, expr.span)
        return result

    def _resolved(self, decl: OpDecl, keyword: ast.KeywordArg) -> Attribute:
        """What an attribute is: a value, a variable, a list of those, or computed. This is decided here alone."""
        a, value = decl.attr(keyword.name), keyword.value
        assert a is not None
        if isinstance(value, ast.Name) and a.type == "dtype" and value.id in DTYPES:
            # a constant, whatever else is called so
            value = ast.Const(value.id, "string", value.id, span=value.span)
        listed = value.items if isinstance(value, ast.ListExpr) and isinstance(value.items, tuple) else ()
        if listed and (a.length == len(listed) or (a.type == "ints" and not self.is_source)):
            items = tuple(self._element(item) for item in listed)
            known = tuple(item.value for item in items if isinstance(item, Fixed))
            return Attribute(a.name, value, Fixed(known) if len(known) == len(items) else Elements(items))
        return Attribute(a.name, value, self._pattern(decl, a, value))

    def _pattern(self, decl: OpDecl, a: AttrDecl, value: ast.Expr) -> Fixed | Variable | Computed:
        if isinstance(value, ast.Name) and value.id not in words(decl, a):
            return self._element(value)
        if isinstance(value, ast.Name) and decl.preset(a.name, value.id) is not None:
            return Computed()
        known = constant(value)
        known = None if known is None else coerce(a, known)
        return Computed() if known is None else Fixed(known)

    def _element(self, value: ast.Expr) -> Fixed | Variable | Computed:
        match value:
            case ast.Name(id) if self.is_source or id not in (self.index, *(name for name, _ in self.lets)):
                return Variable(id)
            case ast.Const(known):
                return Fixed(known)
        return Computed()

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
        if each is not None:
            return f"members are written with the index of their `each`: `{name}[{each}]`", ""
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
            raise error(section.span, "a group is passed as a whole", "write `w[..]`")
        if base.id in self.failed and base.id not in self.kinds:
            raise _Silent
        if self.is_source or base.id not in self.members:
            known = [] if self.is_source else sorted(self.members)
            hint = "in a source pattern members are matched one by one: `w[i]`" if self.is_source else ""
            raise error(
                section.span, f"`{base.id}` is not a group of this rule", hint or did_you_mean(base.id, known)
            )
        return f"{self.alias.get(base.id, base.id)}[..]"

    def _variable(self, name: str, expr: ast.Expr, member: bool, each: str | None) -> str:
        if name in self.alias:
            return self.alias[name]
        kind = self.kinds.get(name)
        if kind is None and name in self.failed:
            raise _Silent
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
            hint = f"write `{name}`" if member else f"write `{name}[{self.index}]` in an `each`"
            if not member and not self.is_source and each is None:
                hint = f"write `{name}[..]` for all members, or `{name}[{self.index}]` in an `each`"
            raise error(expr.span, f"`{name}` {varies} by member", hint)
        return name

    def unbound(self, name: str, at: Span) -> TsrError:
        """The message for a name on the right that nothing binds."""
        known = [n for n in self.kinds if "." not in n]
        hint = did_you_mean(name, known)
        if name in self.ops:
            hint = f"`{name}` is an operator: `{self.ops[name].signature}`"
        elif not hint:
            listed = ", ".join(known[:8])
            hint = f"what is used on the right is bound on the left: {listed}" if listed else ""
        return error(at, f"`{name}` is not bound by the source pattern", hint)

    def _number(self, expr: ast.Expr, like: str | None, each: str | None) -> str:
        """A number in tensor position: a scalar constant of the element type of its neighbour."""
        if like is None:
            raise error(expr.span, "a number needs a tensor beside it, whose element type it takes")
        span = expr.span
        base: ast.Expr = ast.Name(like, span=span)
        if like in self.members and each is not None:
            base = ast.Index(base, ast.Name(each, span=span), span=span)
        result = f"fill.{'l' if self.is_source else 'r'}{self.fresh}"
        self.fresh += 1
        if self.is_source:  # any element type: the consumer's own constraints tie it to its neighbour's
            dtype: ast.Expr = ast.Name(f"{result}.dtype", span=span)
            self.kinds[f"{result}.dtype"] = "word"
        else:
            dtype = ast.Call("dtype", (base,), (), span, span=span)
        attrs = (
            ast.KeywordArg("value", expr, span=span),
            ast.KeywordArg("dtype", dtype, span=span),
            ast.KeywordArg("shape", ast.ListExpr((), span=span), span=span),
        )
        # Each member has an element type of its own.
        own = each if like in self.members and not self.is_source else None
        self._add(result, "fill", (), attrs, own, span)
        return result

    def _attributes(self, decl: OpDecl, attrs: Sequence[ast.KeywordArg]) -> None:
        """Checks attributes. On the left, bare names (and lists of names) are variables, bound by matching."""
        if self.is_source:
            for keyword in attrs:
                a = decl.attr(keyword.name)
                assert a is not None
                for name in _pattern_names(keyword.value, a):
                    kind = attribute_kind(a) if name is keyword.value else "integer"
                    if name.id in words(decl, a):
                        continue
                    known = self.kinds.setdefault(name.id, kind)
                    if known != "tensor" and not fits(known, kind):
                        message = f"`{name.id}` is {article(known)} before, and {article(kind)} here"
                        raise error(name.span, message, "use another name")
        if any(n.id in self.failed and n.id not in self.kinds for k in attrs for n in names_of(k.value)):
            raise _Silent
        problems = [d for k in attrs for d in self._unbound_names(decl, k)]
        problems = problems or check_attr_kinds(decl, attrs, self.kinds)
        problems = problems or [d for k in attrs for d in self._other_words(decl, k)]
        if problems:
            raise TsrError(problems)

    def _other_words(self, decl: OpDecl, keyword: ast.KeywordArg) -> Iterator[Diagnostic]:
        """A variable in an attribute none of whose values it can have, since it is another attribute's."""
        a, value = decl.attr(keyword.name), keyword.value
        assert a is not None
        if attribute_kind(a) != "word" or not isinstance(value, ast.Name) or value.id in words(decl, a):
            return
        known = self.chosen.get(value.id, ())
        other = next((o for o in known if not have_common_values(o, a)), None)
        if other is not None:
            message = (
                f"`{value.id}` is a value of `{other.name}`, and never one of `{a.name}` of `{decl.name}`"
            )
            hint = f"`{other.name}` is {wanted(other)}, and `{a.name}` {wanted(a)}"
            yield Diagnostic(message, value.span, hint)
        elif self.is_source:
            self.chosen.setdefault(value.id, []).append(a)

    def _unbound_names(self, decl: OpDecl, keyword: ast.KeywordArg) -> Iterator[Diagnostic]:
        """Names in an attribute that nothing binds, apart from one that should be a word."""
        a = decl.attr(keyword.name)
        assert a is not None
        if isinstance(keyword.value, ast.Name) and words(decl, a):
            return
        if self.is_source and isinstance(keyword.value, ast.ListExpr) and a.length is None:
            if any(n.id not in self.kinds for n in names_of(keyword.value)):
                message = f"`{a.name}` is a list of any length, and its elements bind no names"
                hint = f"name the list, `{a.name} = s`, and use its elements elsewhere: `s[0]`"
                yield Diagnostic(message, keyword.value.span, hint)
            return
        for name in names_of(keyword.value):
            if name.id not in self.kinds and name.id not in DTYPES:
                yield from self.unbound(name.id, name.span).diagnostics


class _Silent(Exception):
    """A statement needs what another one failed to bind. That one's problem is recorded."""


def _list_name(body: ast.Expr) -> str:
    """The list that ``x[i] for i in ..`` runs over, as far as can be told."""
    return next((n.id for n in names_of(body) if isinstance(body, ast.Index)), "x")


def _pattern_names(expr: ast.Expr, a: AttrDecl) -> Iterator[ast.Name]:
    """The variables that an attribute's value binds: itself, or the elements of a list of known length."""
    if isinstance(expr, ast.Name):
        yield expr
    elif isinstance(expr, ast.ListExpr) and isinstance(expr.items, tuple) and len(expr.items) == a.length:
        yield from (i for i in expr.items if isinstance(i, ast.Name))
