"""Expressions, statements and other parts of a line, as documents. Parentheses stand only where they are needed."""

from __future__ import annotations

from tensat_dl.lang import ast
from tensat_dl.lang.print_doc import Break, Doc, DocGroup, Fill, Nest, flat, join

# How tightly each operator binds: the grammar's levels, loosest first.
_IF, _OR, _AND, _NOT, _COMPARISON, _SUM, _TERM, _NEGATIVE, _POSTFIX, _ATOM = range(10)
_LEVELS = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("==", "!=", "<=", ">=", "<", ">"), _COMPARISON),
    **dict.fromkeys(("+", "-", "++"), _SUM),
    **dict.fromkeys(("*", "/", "%", "@"), _TERM),
}


def expression(e: ast.Expr) -> Doc:
    """Any expression."""
    match e:
        case ast.Const():
            return e.text
        case ast.Name():
            return e.id
        case ast.Fact():
            negated = e.function == "varying"
            function = "not weight" if negated else e.function
            return (f"{function}(", expression(e.tensor), ")")
        case ast.ListExpr():
            return _list(e)
        case ast.Call():
            return _call(e)
        case ast.Index():
            return (_operand(e.base, _POSTFIX), "[", expression(e.index), "]")
        case ast.Section():
            start = "" if e.start is None else expression(e.start)
            stop = "" if e.stop is None else expression(e.stop)
            return (_operand(e.base, _POSTFIX), "[", start, "..", stop, "]")
        case ast.Unary():
            return (
                ("-", _operand(e.operand, _NEGATIVE)) if e.op == "-" else ("not ", _operand(e.operand, _NOT))
            )
        case ast.Binary():
            return DocGroup(Nest(_chain(e)))
        case ast.If():
            then, otherwise = expression(e.then), expression(e.otherwise)
            parts = ("if ", expression(e.condition), Break(), "then ", then, Break(), "else ", otherwise)
            return DocGroup(Nest(parts))


def _level(e: ast.Expr) -> int:
    match e:
        case ast.If():
            return _IF
        case ast.Binary():
            return _LEVELS[e.op]
        case ast.Unary():
            return _NEGATIVE if e.op == "-" else _NOT
        case ast.Index() | ast.Section():
            return _POSTFIX
        case ast.Const():  # the parser makes no negative constants, but a program may
            return _NEGATIVE if e.text.startswith("-") else _ATOM
        case _:
            return _ATOM


def _operand(e: ast.Expr, loosest: int) -> Doc:
    return expression(e) if _level(e) >= loosest else ("(", expression(e), ")")


def _chain(e: ast.Binary) -> Doc:
    """``a + b - c`` is one chain: if it does not fit into a line, every operator begins one."""
    level = _LEVELS[e.op]
    rest: list[Doc] = []
    first: ast.Expr = e
    while isinstance(first, ast.Binary) and _LEVELS[first.op] == level:
        rest.append((Break(), first.op, " ", _operand(first.right, level + 1)))
        first = first.left
        if level == _COMPARISON:  # comparisons do not chain
            break
    loosest = level + 1 if level == _COMPARISON else level
    return (_operand(first, loosest), *reversed(rest))


def _list(e: ast.ListExpr) -> Doc:
    if isinstance(e.items, ast.EachIn):
        return bracketed("[", _each_in(e.items), "]")
    if not e.items:
        return "[]"
    items = [expression(i) for i in e.items]
    return bracketed("[", Fill(tuple(items)) if all(map(_is_short, e.items)) else join(items), "]")


def _is_short(e: ast.Expr) -> bool:
    """Numbers and names stand many to a line."""
    return isinstance(e, ast.Const | ast.Name) or (isinstance(e, ast.Unary) and _is_short(e.operand))


def _call(e: ast.Call) -> Doc:
    attrs: list[Doc] = [(a.name, " = ", expression(a.value)) for a in e.attrs]
    if isinstance(e.args, ast.EachIn):
        return (e.fn, _sections([_each_in(e.args)], attrs))
    args = [expression(a) for a in e.args]
    if len(args) == 1 and not attrs and isinstance(e.args[0], ast.Call | ast.ListExpr):
        return (e.fn, "(", args[0], ")")  # the inner brackets do for both
    return (e.fn, _sections(args, attrs))


def _sections(before: list[Doc], after: list[Doc]) -> Doc:
    """``(before; after)``: each part on one line, if it fits."""
    if not after:
        return bracketed("(", DocGroup(join(before)), ")") if before else "()"
    if not before:
        return bracketed("(", ("; ", DocGroup(join(after))), ")")
    return bracketed("(", (DocGroup(join(before)), ";", Break(), DocGroup(join(after))), ")")


def bracketed(opening: str, inside: Doc, closing: str) -> Doc:
    """The inside on the brackets' line, or on indented lines of its own."""
    return DocGroup((opening, Nest((Break(""), inside)), Break(""), closing))


def _each_in(e: ast.EachIn) -> Doc:
    return (expression(e.body), Break(), "for ", e.var, " in ", range_(e.range))


def range_(r: ast.Range) -> Doc:
    """``start..stop``, or a list to go through."""
    return expression(r.start) if r.stop is None else (expression(r.start), "..", expression(r.stop))


def listed(word: str, parts: list[Doc]) -> Doc:
    """``word a, b, c``"""
    return DocGroup((word, " ", Nest(join(parts))))


def lvalue(target: ast.LValue) -> Doc:
    """The left side of ``=``, or one name of it."""
    if target.every:
        return f"{target.name}[..]"
    return target.name if target.index is None else (target.name, "[", expression(target.index), "]")


def binding(s: ast.Bind) -> Doc:
    """``a = value``, ``(a, b) = value``, ``each i: a[i] = value``, or a pattern without a name."""
    doc = expression(s.value)
    if not s.targets:
        # A line that starts with "-" would go on with the line before.
        return ("(", doc, ")") if flat(doc).startswith("-") else doc
    names = [lvalue(t) for t in s.targets]
    left = names[0] if len(names) == 1 else bracketed("(", join(names), ")")
    return ("" if s.each is None else f"each {s.each}: ", left, " = ", doc)


def statement(s: ast.SimpleStmt) -> Doc:
    """A statement of a graph, a block or a test that has no body."""
    match s:
        case ast.Bind():
            return binding(s)
        case ast.Input():
            return ("input ", lvalue(s.target), " : ", tensor_type(s.type))
        case ast.Weight():
            value: Doc = "" if s.value is None else (" = ", expression(s.value))
            return ("weight ", lvalue(s.target), " : ", tensor_type(s.type), value)
        case ast.Output():
            return listed("output", [_output(i) for i in s.items])
        case ast.Return():
            return listed("return", [expression(v) for v in s.values])


def _output(item: ast.OutputItem) -> Doc:
    value = expression(item.value)
    return value if item.name is None else (item.name, " = ", value)


def tensor_type(t: ast.TypeExpr) -> Doc:
    """``f32[64, 1024]``"""
    dims = [expression(d) for d in t.shape]
    return (t.dtype, bracketed("[", join(dims), "]") if dims else "[]")


def sizes(declared: tuple[ast.SizeParam, ...]) -> Doc:
    """``(n: 1..512 = 128)``, or nothing."""
    parts: list[Doc] = [
        (f"{s.name}: ", expression(s.low), "..", expression(s.high), " = ", expression(s.default))
        for s in declared
    ]
    return bracketed("(", join(parts), ")") if parts else ""


def params(p: ast.Params) -> Doc:
    """``(x: tensor, y: tensor?; axis: int = 0)``"""
    return _sections([_tensor(t) for t in p.tensors], [_attribute(a) for a in p.attrs])


def _tensor(t: ast.TensorParam) -> Doc:
    mark = {"one": "", "optional": "?", "many": ".."}[t.kind]
    return f"{t.name}: tensor{mark}" if t.typed else t.name


def _attribute(a: ast.AttrParam) -> Doc:
    kind = " | ".join(a.choices) or (a.type if a.length is None else f"{a.type}[{a.length}]")
    default: Doc = "" if a.default is None else (" = ", expression(a.default))
    return (f"{a.name}: {kind}", default)


def op_stmt(s: ast.OpStmt) -> Doc:
    """A statement of an operator's body."""
    if s.value is None:
        return s.kind
    value = expression(s.value)
    if s.kind == "require" and s.message is not None:
        return DocGroup(("require ", value, " :", Nest((Break(), quoted(s.message)))))
    words = [s.kind, *(w for w in (s.name, s.preset) if w is not None)]
    return (" ".join(words), " = " if len(words) > 1 else " ", value)


def quoted(text: str) -> str:
    """A string as it is written."""
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(char, escape)
    return f'"{text}"'
