"""Random syntax trees: every kind of node, as the parser could have built it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tensat_dl.core.diagnostics import Source, Span
from tensat_dl.lang import ast

NOWHERE = Span(Source("made", ""), 0, 0)

#: None of them is reserved or starts a statement.
names = st.sampled_from(
    ["x", "y", "w1", "heads", "_t", "stride", "a_rather_long_name_of_a_tensor", "iff", "note"]
)
dashed = st.sampled_from(["a", "merge-matmul-rhs", "x-3x3", "rule", "where", "b_c-1"])
dtypes = st.sampled_from(["f32", "i64"])
lines = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30).map(str.rstrip)
docs = st.lists(lines, max_size=3).map("\n".join)
strings = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)


def quoted(text: str) -> str:
    escapes = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


def _const(value: object, kind: str, text: str) -> ast.Const:
    return ast.Const(value, kind, text, span=NOWHERE)  # type: ignore[arg-type]


constants = st.one_of(
    st.integers(0, 10**18 - 1).map(lambda n: _const(n, "int", str(n))),
    st.sampled_from(["0.5", "1e-5", "3.25E+7", "007.0", "2e9"]).map(lambda t: _const(float(t), "float", t)),
    st.sampled_from(["0", "007"]).map(lambda t: _const(int(t), "int", t)),
    strings.map(lambda s: _const(s, "string", quoted(s))),
    st.booleans().map(lambda b: _const(b, "bool", str(b).lower())),
)
variables = names.map(lambda n: ast.Name(n, span=NOWHERE))


def _tuples(items: SearchStrategy, least: int = 0, most: int = 3) -> SearchStrategy:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def _made(node: Callable, *parts: SearchStrategy, **named: SearchStrategy) -> SearchStrategy:
    return st.builds(node, *parts, span=st.just(NOWHERE), **named)


def _ranges(exprs: SearchStrategy) -> SearchStrategy:
    return _made(ast.Range, exprs, st.none() | exprs)


def _composite(exprs: SearchStrategy) -> SearchStrategy:
    each = _made(ast.EachIn, exprs, names, _ranges(exprs))
    keywords = _made(ast.KeywordArg, names, exprs)
    operators = st.sampled_from(
        ["or", "and", "==", "!=", "<=", ">=", "<", ">", "+", "-", "++", "*", "/", "%", "@"]
    )
    return st.one_of(
        _made(ast.ListExpr, _tuples(exprs, most=12) | each),
        _made(ast.Call, names, _tuples(exprs), _tuples(keywords), st.just(NOWHERE)),
        _made(ast.Call, names, each, _tuples(keywords), st.just(NOWHERE)),
        _made(ast.Index, exprs, exprs),
        _made(ast.Section, exprs, st.none() | exprs, st.none() | exprs),
        _made(ast.Unary, st.sampled_from(["-", "not"]), exprs),
        _made(ast.Binary, operators, exprs, exprs),
        _made(ast.If, exprs, exprs, exprs),
    )


exprs = st.recursive(constants | variables, _composite, max_leaves=12)

lvalues = st.one_of(
    _made(ast.LValue, names, st.none() | exprs, st.just(False)),
    _made(ast.LValue, names, st.none(), st.just(True)),
)
types = _made(ast.TypeExpr, dtypes, _tuples(exprs, most=4))
binds = _made(ast.Bind, _tuples(lvalues, least=1), exprs)
_simple = st.one_of(
    binds,
    _made(ast.Input, lvalues, types),
    _made(ast.Weight, lvalues, types, st.none() | exprs),
    _made(ast.Output, _tuples(_made(ast.OutputItem, st.none() | names, exprs), least=1)),
    _made(ast.Return, _tuples(exprs, least=1)),
)
stmts = st.recursive(_simple, lambda s: _made(ast.For, names, _ranges(exprs), _tuples(s)), max_leaves=4)
bodies = _tuples(stmts)

_tensors = st.one_of(
    _made(ast.TensorParam, names, st.just("one"), st.booleans()),
    _made(ast.TensorParam, names, st.sampled_from(["optional", "many"]), st.just(True)),
)
_attributes = st.one_of(
    _made(
        ast.AttrParam,
        names,
        st.sampled_from(["int", "axis", "ints", "choice"]),
        st.none() | st.integers(0, 99),
        st.just(()),
        st.none() | exprs,
    ),
    _made(ast.AttrParam, names, st.just("choice"), st.none(), _tuples(names, least=2), st.none() | exprs),
)
params = st.builds(ast.Params, _tuples(_tensors), _tuples(_attributes, most=5))


@st.composite
def op_stmts(draw: DrawFn) -> ast.OpStmt:
    kind = draw(st.sampled_from(["require", "let", "shape", "dtype", "flops", "preset", "view"]))
    if kind == "view":
        return ast.OpStmt("view", None, span=NOWHERE)
    name = draw(names) if kind in ("let", "preset") else None
    if kind in ("shape", "dtype"):
        name = draw(st.none() | names)
    preset = draw(names) if kind == "preset" else None
    message = draw(st.none() | strings) if kind == "require" else None
    return ast.OpStmt(kind, draw(exprs), NOWHERE, name, preset, message)


ops = st.one_of(
    _made(
        ast.Op,
        names,
        st.booleans(),
        params,
        _tuples(names),
        _tuples(op_stmts(), most=4),
        st.none(),
        docs,
        st.just(NOWHERE),
    ),
    _made(ast.Op, names, st.booleans(), params, _tuples(names), st.just(()), exprs, docs, st.just(NOWHERE)),
)
rule_stmts = st.one_of(
    _made(ast.Bind, st.just(()), exprs, each=st.none()),
    _made(ast.Bind, _tuples(lvalues, least=1), exprs, each=st.none() | names),
)
rule_sides = _made(ast.RuleSide, _tuples(rule_stmts, least=1), _tuples(exprs))
families = _made(ast.Family, names, _tuples(variables, least=1))
rules = _made(
    ast.Rule, dashed, rule_sides, rule_sides, st.booleans(), st.none() | families, docs, st.just(NOWHERE)
)
sizes = _made(ast.SizeParam, names, exprs, exprs, exprs)
items = st.one_of(
    _made(ast.Import, strings),
    ops,
    rules,
    _made(ast.Block, names, params, bodies, docs, st.just(NOWHERE)),
    _made(ast.GraphItem, names, _tuples(sizes), bodies, docs, st.just(NOWHERE)),
    _made(ast.Test, dashed, bodies, st.none() | bodies, docs, st.just(NOWHERE)),
)
files = _made(ast.File, _tuples(items), st.just(()))
