"""What an author probably meant where the grammar does not go on."""

from __future__ import annotations

from collections.abc import Callable

from tensat_dl.core.diagnostics import Diagnostic, did_you_mean
from tensat_dl.lang.foreign_syntax import habit
from tensat_dl.lang.tokens import DOC_ERROR, DOC_HINT, RESERVED, words
from tensat_dl.lang.unexpected import COMPARISONS, Place, clipped

_GRAPH_WORDS = ("input", "weight", "output", "return", "for")
#: The words that start a statement, for each kind of item.
STATEMENTS = {
    "op": ("require", "let", "shape", "dtype", "flops", "preset", "view"),
    "rule": ("each", "where"),
    "graph": _GRAPH_WORDS,
    "block": _GRAPH_WORDS,
    "test": (*_GRAPH_WORDS, "unchanged"),
}


def special_case(here: Place) -> Diagnostic | None:
    """A message for the mistakes about which "unexpected ..." would say too little, or at the wrong place."""
    if here.kind == "doc":
        return Diagnostic(DOC_ERROR, here.span(), DOC_HINT)
    if (after := here.line_left_open) is not None:
        return Diagnostic(f"nothing stands after `{here.near(-after)}`", here.span(after))
    if here.text == "if" and "INPUT" in here.accepts:
        choice = "a choice is made inside a value: `x = if a then b else c`"
        return Diagnostic("`if` does not start a statement", here.span(), choice)
    if here.text in RESERVED and here.accepts & {"NAME", "DASHED"} and not here.operand_expected:
        return Diagnostic(
            f"`{here.text}` is a keyword and cannot be a name", here.span(), "choose another name"
        )
    ends = here.item == "test" and here.text == "}"  # after a misspelt `unchanged`
    if here.starts_statement(1) and (ends or here.kind in ("word", "number", "string", "dashed")):
        return _unknown_statement(here)
    if here.text == "=" and here.starts_statement(1) and here.near(-1) in STATEMENTS.get(here.item, ()):
        message = f"`{here.near(-1)}` starts a statement and cannot be a name here"
        return Diagnostic(message, here.span(1), "choose another name")
    return None


def _unknown_statement(here: Place) -> Diagnostic | None:
    """A misspelt keyword is read as a name; the parser stops only at the token after it."""
    word = here.near(-1)
    known = STATEMENTS.get(here.item, ())
    if here.tokens[here.at - 1].kind != "word" or word in known:
        return None
    near = did_you_mean(word, known)
    if not near and here.item == "rule":
        return None  # a rule's statements are mostly expressions
    listed = ", ".join(f"`{k}`" for k in known)
    hint = near or f"a statement is `name = value` or starts with {listed}"
    return Diagnostic(f"{clipped(word)} does not start a statement", here.span(1), hint)


def hint(here: Place) -> str:
    """What to write instead, where that can be guessed."""
    if text := habit(here):
        return text
    if here.kind == "word":
        near = did_you_mean(here.text, (t.lower() for t in here.accepts if t.isalpha() and t not in _CLASSES))
        if near:
            return near
    return next((text for applies, text in _HINTS if applies(here)), "")


_OPERANDS = ("word", "number", "string")
_ARROWS = ("=>", "<=>")
_CLASSES = words("NAME DASHED INT FLOAT STRING DOC")

_HINTS: tuple[tuple[Callable[[Place], bool], str], ...] = (
    (
        lambda p: p.text == "=" and p.in_call and not p.after_semicolon,
        "attributes come after `;`: `f(x; name = value)`",
    ),
    (
        lambda p: p.in_call and p.after_semicolon and "EQUAL" in p.accepts,
        "after `;` come attributes, `name = value`",
    ),
    (lambda p: p.text == "=" and "COMPARE" in p.accepts, "to compare, write `==`"),
    (lambda p: p.text == "==" and "EQUAL" in p.accepts, "to give a value a name, write `=`"),
    (
        lambda p: p.text in COMPARISONS and p.operator_expected and "COMPARE" not in p.accepts,
        "comparisons do not chain: write `a < b and b < c`",
    ),
    (lambda p: p.text in (")", "]") and p.near(-1) == ",", "remove the comma before it"),
    (lambda p: p.text == ")" and p.near(-1) == ";", "remove the `;`, or write attributes after it"),
    (
        lambda p: p.text == "," and p.near(-2) in ("input", "weight"),
        "each tensor is declared by a statement of its own",
    ),
    (
        lambda p: p.near(-2) == ":" and p.accepts == {"LSQB"},
        "a type is written with its shape: `f32[2, 3]`, or `f32[]` for a scalar",
    ),
    (lambda p: p.kind == "line" and p.near(1) == "{", "`{` stands on the line of what it belongs to"),
    (lambda p: p.kind == "line" and "LBRACE" in p.accepts, "a body is written in braces, `{ ... }`"),
    (
        lambda p: p.near(-2) in ("input", "weight") and "COLON" in p.accepts,
        "a tensor is declared by `input x : f32[2, 3]` or `weight w : f32[2, 3]`",
    ),
    (lambda p: p.near(-2) == "each" and "COLON" in p.accepts, "a group is written `each i: y[i] = f(x[i])`"),
    (lambda p: p.near(-2) == "for" and "IN" in p.accepts, "a loop is written `for i in 0..8`"),
    (
        lambda p: p.text == "where" and p.item == "rule" and p.accepts == {"LBRACE"},
        "conditions follow a pattern: `rule name { pattern where condition => replacement }`",
    ),
    (
        lambda p: p.item == "test" and p.text == "}" and "RIGHT" in p.accepts,
        "a test is written `test rule-name { before => after }` or `test rule-name { before => unchanged }`",
    ),
    (
        lambda p: "TENSOR" in p.accepts,
        "what stands before `;` is a tensor; attributes follow: `f(x: tensor; n: int)`",
    ),
    (
        lambda p: p.text == "-" and p.near(-2) in ("graph", "block", "op"),
        "write `_`: only the names of rules and tests may contain `-`",
    ),
    (lambda p: p.near(-1) == "import", 'an import is written `import "name"`'),
    (lambda p: p.text == "|" and p.operator_expected, "disjunction is written `or`"),
    (lambda p: p.text == "|" and p.near(-1) == "|", "disjunction is written `or`"),
    (
        lambda p: p.text == "(" and "EQUAL" in p.accepts and p.starts_statement(1),
        "give the value a name, `y = f(x)`, or write `output f(x)`",
    ),
    (
        lambda p: p.text == ":" and "EQUAL" in p.accepts and p.starts_statement(1),
        "a tensor is declared by `input x : f32[2, 3]` or `weight w : f32[2, 3]`",
    ),
    (
        lambda p: p.item == "rule" and p.text == "}" and "RIGHT" in p.accepts,
        "a rule is written `rule name { pattern => replacement }`",
    ),
    (
        lambda p: p.item == "rule" and p.text in ("=>", "<=>", "}") and p.near(-1) in ("{", "=>", "<=>"),
        "both sides of a rule are patterns: `rule name { pattern => replacement }`",
    ),
    (
        lambda p: p.item == "rule" and p.text in _ARROWS and any(t.text in _ARROWS for t in p.tokens[: p.at]),
        "a rule has one arrow",
    ),
    (
        lambda p: p.text == "{" and p.opener is None and p.near(-1) in STATEMENTS,
        "give it a name",
    ),
    (
        lambda p: not p.item and p.text in _GRAPH_WORDS,
        "statements stand inside a body: `graph name { ... }`",
    ),
    (lambda p: p.text in RESERVED and p.operand_expected, "it is a keyword and cannot be a name"),
    (
        lambda p: p.operator_expected and "_SEP" in p.accepts and not p.in_parens and p.kind in _OPERANDS,
        "a statement ends at the end of its line or at `;`",
    ),
)
