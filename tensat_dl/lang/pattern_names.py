"""Names of one side of a rule, and the attributes that are written with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tensat_dl.core.diagnostics import Diagnostic, Span, TsrError, error
from tensat_dl.core.expression import member, names_of
from tensat_dl.core.graph import DTYPES
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, Variable
from tensat_dl.core.words import did_you_mean, nearest
from tensat_dl.lang import ast
from tensat_dl.ops.calls import check_attr_kinds
from tensat_dl.ops.kinds import article, attribute_kind, fits, words
from tensat_dl.ops.table import AttrDecl, OpDecl, OpTable, coerce, constant, have_common_values, wanted

#: Shorter names are variables, however near a word: `i` resembles `i8`.
SHORTEST_WORD = 3
#: The index name of a list rule; the `for`s among its operands may have names of their own.
ELEMENT = ".element"


class Silent(Exception):
    """A statement needs a name that another one failed to bind. The other one's problem is recorded."""


@dataclass
class PatternNames:
    """The names of a side, while it is flattened. ``kinds`` has every name that an expression may use; those of
    tensors that vary by member are lists of tensors. The right side starts with the names of the left one."""

    ops: OpTable
    is_source: bool
    kinds: dict[str, str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    index: str | None = None  #: of the members of a group; `ELEMENT` in a rule that takes lists
    loops: set[str] = field(
        default_factory=set
    )  #: the names of the elements' indices in `for`s among operands
    lets: list[tuple[str, ast.Expr]] = field(default_factory=list)
    bound: dict[str, Span] = field(default_factory=dict)  #: results of statements of this side
    alias: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, list[AttrDecl]] = field(default_factory=dict)  #: what variables for words are values of
    failed: set[str] = field(default_factory=set)

    def unbound(self, name: str, at: Span, words: Iterable[str] = ()) -> TsrError:
        """The message for a name that nothing binds on the left. ``words`` could stand in its place."""
        known = [n for n in self.kinds if "." not in n]
        hint = did_you_mean(name, [*known, *words])
        if name in self.ops:
            hint = f"`{name}` is an operator: `{self.ops[name].signature}`"
        elif not hint:
            listed = ", ".join(known[:8])
            hint = f"what is used on the right is bound on the left: {listed}" if listed else ""
        return error(at, f"`{name}` is not bound by the source pattern", hint)

    # ---- attributes --------------------------------------------------------------------------------------

    def check_attributes(self, decl: OpDecl, attrs: Sequence[ast.KeywordArg]) -> None:
        """Checks attributes. On the left, bare names (and lists of names) are variables, bound by matching."""
        if self.is_source:
            for keyword in attrs:
                a = decl[keyword.name]
                list_ = self._by_element(keyword.value)
                if list_ and list_ not in self.kinds:
                    self._bind_list(list_, decl, keyword)
                for name in _pattern_names(keyword.value, a):
                    kind = attribute_kind(a) if name is keyword.value else "integer"
                    if name.id in words(decl, a):
                        continue
                    self._refuse_near_word(name, decl, a)
                    known = self.kinds.setdefault(name.id, kind)
                    if known != "tensor" and not fits(known, kind):
                        message = f"`{name.id}` is {article(known)} before, and {article(kind)} here"
                        raise error(name.span, message, "use another name")
        if any(n.id in self.failed and n.id not in self.kinds for k in attrs for n in names_of(k.value)):
            raise Silent
        problems = [d for k in attrs for d in self._unbound_names(decl, k)]
        problems = problems or check_attr_kinds(decl, attrs, self.kinds)
        problems = problems or [d for k in attrs for d in self._other_words(decl, k)]
        if problems:
            raise TsrError(problems)

    def _by_element(self, value: ast.Expr) -> str:
        """The list in ``start = a[i]``, an attribute that differs from element to element; "" if it is none."""
        match value:
            case ast.Index(ast.Name(list_), ast.Name(index)) if self.is_source and index == ELEMENT:
                return list_
        return ""

    def _bind_list(self, list_: str, decl: OpDecl, keyword: ast.KeywordArg) -> None:
        """Binds a list of the values that an attribute has in one element after the other."""
        a = decl[keyword.name]
        if attribute_kind(a) != "integer":
            message = f"`{a.name}` of `{decl.name}` is {wanted(a)}, and only integers differ by element"
            raise error(keyword.value.span, message, "name one value for all elements")
        self.kinds[list_] = "list of integers"
        self.members.add(list_)

    def _refuse_near_word(self, name: ast.Name, decl: OpDecl, a: AttrDecl) -> None:
        """Raises `TsrError` for a new variable that resembles a word of its attribute: it is taken for a mistake."""
        near = nearest(name.id, words(decl, a)) if len(name.id) >= SHORTEST_WORD else ""
        if near and name.id not in self.kinds:
            hint = f"did you mean `{near}`? a variable for any value of `{a.name}` needs a name less like it"
            what = "an element type" if a.type == "dtype" else f"a value of `{a.name}`"
            raise error(name.span, f"`{name.id}` is not {what}", hint)

    def _other_words(self, decl: OpDecl, keyword: ast.KeywordArg) -> Iterator[Diagnostic]:
        """A variable in an attribute none of whose values it can have, since it is another attribute's."""
        a, value = decl[keyword.name], keyword.value
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
        a = decl[keyword.name]
        if isinstance(keyword.value, ast.Name) and words(decl, a):
            return
        if self.is_source and isinstance(keyword.value, ast.ListExpr) and a.length is None:
            if any(n.id not in self.kinds for n in names_of(keyword.value)):
                message = f"`{a.name}` is a list of any length, and its elements bind no names"
                hint = f"name the list, `{a.name} = s`, and use its elements elsewhere: `s[0]`"
                yield Diagnostic(message, keyword.value.span, hint)
            return
        match keyword.value:
            case ast.Index(ast.Name(of), ast.Name(index)) if self.is_source and index == self.index:
                if of not in self.kinds:
                    message = f"members of a group share their attributes, and `{a.name}` differs here"
                    hint = f"name one value for all members, `{a.name} = {of}`; elements of a list may differ"
                    yield Diagnostic(message, keyword.value.span, hint)
                    return
        for name in names_of(keyword.value):
            if name.id not in self.kinds and name.id not in DTYPES:
                yield from self.unbound(name.id, name.span).diagnostics

    def resolved(self, decl: OpDecl, keyword: ast.KeywordArg) -> Attribute:
        """The meaning of an attribute: a value, a variable, a list of those, or computed. No other code decides
        this."""
        a, value = decl[keyword.name], keyword.value
        if isinstance(value, ast.Name) and a.type == "dtype" and value.id in DTYPES:
            # a constant, whatever else is called so
            value = ast.Const(value.id, "string", value.id, span=value.span)
        if a.type in ("axis", "axes") and _from_the_end(value):
            return Attribute(a.name, value, Computed())
        listed = value.items if isinstance(value, ast.ListExpr) and isinstance(value.items, tuple) else ()
        if listed and (a.length == len(listed) or (a.listed and not self.is_source)):
            items = tuple(self._element(item) for item in listed)
            known = tuple(item.value for item in items if isinstance(item, Fixed))
            return Attribute(a.name, value, Fixed(known) if len(known) == len(items) else Elements(items))
        return Attribute(a.name, value, self._pattern(decl, a, value))

    def _pattern(self, decl: OpDecl, a: AttrDecl, value: ast.Expr) -> Fixed | Variable | Computed:
        if isinstance(value, ast.Name) and value.id not in words(decl, a):
            return self._element(value)
        if isinstance(value, ast.Name) and decl.preset(a.name, value.id) is not None:
            return Computed()
        list_ = self._by_element(value)
        if list_ in self.members and self.kinds[list_] == "list of integers":
            return Variable(member(list_, ELEMENT))
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


def _from_the_end(axes: ast.Expr) -> bool:
    """Whether a literal axis, or one in a list, is negative: its value depends on the rank of a tensor."""
    items = axes.items if isinstance(axes, ast.ListExpr) and isinstance(axes.items, tuple) else (axes,)
    return any(isinstance(i, ast.Unary) and i.op == "-" for i in items)


def _pattern_names(expr: ast.Expr, a: AttrDecl) -> Iterator[ast.Name]:
    """The variables that an attribute's value binds: itself, or the elements of a list of known length."""
    if isinstance(expr, ast.Name):
        yield expr
    elif isinstance(expr, ast.ListExpr) and isinstance(expr.items, tuple) and len(expr.items) == a.length:
        yield from (i for i in expr.items if isinstance(i, ast.Name))
