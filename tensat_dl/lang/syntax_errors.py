"""Syntax errors in plain words: the unexpected token, the tokens that were expected, and the likely intention."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.core.graph import DTYPES
from tensat_dl.core.words import did_you_mean, series
from tensat_dl.lang.tokens import DOC_ERROR, DOC_HINT, ITEMS, RESERVED, STATEMENTS, words
from tensat_dl.lang.unexpected import COMPARISONS, Place, clipped

#: How terminals are called. Those of keywords are not listed: theirs is the keyword in capitals.
_WORDS = {
    "NAME": "a name",
    "DASHED": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "VBAR": "`|`",
    "RIGHT": "`=>`",
    "BOTH": "`<=>`",
    "DOTS": "`..`",
    "OPTIONAL": "`?`",
    "__ANON_0": "`->`",
}
#: Terminals that mean one thing together: if the first ones are all accepted, the second ones go without saying.
_TOGETHER = (
    (
        words("OP RULE GRAPH"),
        words("DOC IMPORT OPAQUE OP RULE BLOCK GRAPH TEST"),
        [f"`{word}`" for word in ITEMS],
    ),
    (
        words("REQUIRE SHAPE"),
        words("REQUIRE LET SHAPE DTYPE FLOPS PRESET VIEW"),
        [f"`{word}`" for word in STATEMENTS["op"]],
    ),
    (words("INPUT OUTPUT"), words("INPUT WEIGHT OUTPUT RETURN FOR NAME LPAR"), ["a statement"]),
    (
        words("EACH NAME INT"),
        words("EACH NAME INT FLOAT STRING TRUE FALSE LSQB LPAR MINUS NOT IF"),
        ["a pattern"],
    ),
    (words("NAME INT"), words("NAME INT FLOAT STRING TRUE FALSE LSQB LPAR MINUS NOT IF"), ["an expression"]),
    (
        words("PLUS TIMES"),
        words("PLUS MINUS JOIN TIMES DIVIDE MODULO AT COMPARE AND OR LSQB LPAR DOTS"),
        ["an operator"],
    ),
)


def explain(here: Place) -> Diagnostic:
    """The message for a token that does not fit."""
    case = special_case(here)
    if case is not None:
        return case
    where = here.after_previous() if here.is_cut_short else here.span()
    return Diagnostic(f"unexpected {_found(here)}{_expected(here)}", where, hint(here))


def _found(here: Place) -> str:
    if here.token is None:
        return "end of the file" if here.last_piece else f"end of the {here.item or 'item'}"
    if here.kind == "line" or here.is_cut_short:
        return "end of the line"
    if here.kind == "string":
        return "string"
    return clipped(here.text.split()[0])


def _expected(here: Place) -> str:
    """``; expected a, b or c``"""
    left = set(here.accepts)
    names: list[str] = []
    for needed, implied, description in _TOGETHER:
        if needed <= left:
            names += description
            left -= implied
    if "_SEP" in left or "`op`" in names:
        left.discard("$END")  # goes without saying
    for terminal in sorted(left - {"DOC"}, key=lambda t: (t in ("RBRACE", "_SEP", "$END"), t)):
        word = _word(terminal, here)
        if word not in names:
            names.append(word)
    if "an operator" in names:  # rarely what is missing: name it last
        names.remove("an operator")
        names.append("an operator")
    if not names:
        return ""
    return f"; expected {series(names, 'or')}"


def _word(terminal: str, here: Place) -> str:
    if terminal == "_SEP":
        return "`;`" if here.in_parens else "the end of the line"
    if terminal == "$END":
        return "the end of the file" if here.last_piece else "the next item"
    return _WORDS.get(terminal) or f"`{terminal.lower()}`"


def special_case(here: Place) -> Diagnostic | None:
    """The message for a mistake that "unexpected ..." would explain badly, or at the wrong place."""
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
    if here.second_in_statement and (ends or here.kind in ("word", "number", "string", "dashed")):
        return _unknown_statement(here)
    if here.text == "=" and here.second_in_statement and here.near(-1) in STATEMENTS.get(here.item, ()):
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
    """A correction, where one can be guessed."""
    near = ""
    if here.kind == "word":
        near = did_you_mean(here.text, (t.lower() for t in here.accepts if t.isalpha() and t not in _CLASSES))
    return next(habits(here), "") or near or next(_hints(here), "")


_OPERAND_KINDS = ("word", "number", "string")
_ARROWS = ("=>", "<=>")
_CLASSES = words("NAME DASHED INT FLOAT STRING DOC")


def _hints(p: Place) -> Iterator[str]:
    """The hints that apply, the likeliest first."""
    if p.in_sizes and p.near(-1) != ",":
        yield SIZE_FORM
    if p.text == "=" and p.in_call and not p.after_semicolon:
        yield "attributes come after `;`: `f(x; name = value)`"
    if p.in_call and p.after_semicolon and "EQUAL" in p.accepts:
        yield "after `;` come attributes, `name = value`"
    if p.text == "=" and "COMPARE" in p.accepts:
        yield "to compare, write `==`"
    if p.text == "==" and "EQUAL" in p.accepts:
        yield "to give a value a name, write `=`"
    if p.text in COMPARISONS and p.operator_expected and "COMPARE" not in p.accepts:
        yield "comparisons do not chain: write `a < b and b < c`"
    if p.text in (")", "]") and p.near(-1) == ",":
        yield "remove the comma before it"
    if p.text == ")" and p.near(-1) == ";":
        yield "remove the `;`, or write attributes after it"
    if p.text == "," and p.near(-2) in ("input", "weight"):
        yield "each tensor is declared by a statement of its own"
    if p.near(-2) == ":" and p.accepts == {"LSQB"}:
        yield "a type is written with its shape: `f32[2, 3]`, or `f32[]` for a scalar"
    if p.kind == "line" and p.near(1) == "{":
        yield "`{` stands on the line of what it belongs to"
    if p.kind == "line" and "LBRACE" in p.accepts:
        yield "a body is written in braces, `{ ... }`"
    if p.near(-2) in ("input", "weight") and "COLON" in p.accepts:
        yield "a tensor is declared by `input x : f32[2, 3]` or `weight w : f32[2, 3]`"
    if p.near(-2) == "each" and "COLON" in p.accepts:
        yield "a group is written `each i: y[i] = f(x[i])`"
    if p.near(-2) == "for" and "IN" in p.accepts and p.item == "rule":
        yield "a family of rules is written `rule name-f for f in relu, tanh { .. }`, a list `[e for i in 0..8]`"
    if p.near(-2) == "for" and "IN" in p.accepts:
        yield "a loop is written `for i in 0..8`"
    if p.text == "where" and p.item == "rule" and "LBRACE" in p.accepts:
        yield "conditions follow a pattern: `rule name { pattern where condition => replacement }`"
    if p.item == "test" and p.text == "}" and "RIGHT" in p.accepts:
        yield "a test is written `test rule-name { before => after }` or `test rule-name { before => unchanged }`"
    if "TENSOR" in p.accepts:
        yield "what stands before `;` is a tensor; attributes follow: `f(x: tensor; n: int)`"
    if p.text == "-" and p.near(-2) in ("graph", "block", "op"):
        yield "write `_`: only the names of rules and tests may contain `-`"
    if p.near(-1) == "import":
        yield 'an import is written `import "name"`'
    if p.text == "|" and (p.operator_expected or p.near(-1) == "|"):
        yield "disjunction is written `or`"
    if p.text == "(" and "EQUAL" in p.accepts and p.second_in_statement:
        yield "give the value a name, `y = f(x)`, or write `output f(x)`"
    if p.text == ":" and "EQUAL" in p.accepts and p.second_in_statement:
        yield "a tensor is declared by `input x : f32[2, 3]` or `weight w : f32[2, 3]`"
    if p.item == "rule" and p.text == "}" and "RIGHT" in p.accepts:
        yield "a rule is written `rule name { pattern => replacement }`"
    if p.item == "rule" and p.text in ("=>", "<=>", "}") and p.near(-1) in ("{", "=>", "<=>"):
        yield "both sides of a rule are patterns: `rule name { pattern => replacement }`"
    if p.item == "rule" and p.text in _ARROWS and any(t.text in _ARROWS for t in p.tokens[: p.at]):
        yield "a rule has one arrow"
    if p.text == "{" and p.opener is None and p.near(-1) in STATEMENTS:
        yield "give it a name"
    if not p.item and p.text in STATEMENTS["graph"]:
        yield "statements stand inside a body: `graph name { ... }`"
    if p.text == "where" and p.near(1) == "(" and p.operand_expected:
        yield "a choice between two tensors is `select(condition, x, y)`"
    if p.text in RESERVED and p.operand_expected:
        yield "it is a keyword and cannot be a name"
    if p.operator_expected and "_SEP" in p.accepts and not p.in_parens and p.kind in _OPERAND_KINDS:
        yield "a statement ends at the end of its line or at `;`"


_OPERATORS = ("+", "-", "*", "/", "%", "@")
_FUNCTIONS = ("def", "fn", "func", "function", "fun")
#: What is said about dimensions that are not numbers.
KNOWN_DIMENSIONS = (
    "dimensions are numbers, or sizes that the graph declares: `graph g(n: 1..512 = 128) { .. }`"
)
#: How an open size of a graph is declared.
SIZE_FORM = "a size is declared `n: 1..512 = 128`, with the smallest, the largest and the usual one"


def habits(here: Place) -> Iterator[str]:
    """Translations of habits from other languages, the likeliest first; none if no habit is recognised."""
    text, tokens = here.text, here.tokens
    opened = here.opener or 0
    bracket, before = tokens[opened].text if opened else "", tokens[opened - 1] if opened else None
    if text in _OPERATORS and here.near(1) == "=" and here.statement_tokens:  # y += x
        yield from _augmented(here)
    if not here.item and text in _FUNCTIONS:  # def f(x):
        name = here.near(1) if here.near(2) == "(" else "f"
        yield f"a part of a graph that can be called is written `block {name}(x) {{ .. }}`"
    if (
        text == "," and here.statement_tokens and not here.in_parens and "EQUAL" in here.accepts
    ):  # a, b = split(x)
        equals = _next(here, "=")
        if equals is not None and equals < here.statement_end:
            yield f"write `({_text(here, here.statement, equals)}) = ..`"
    if text == "," and bracket == "(" and before and before.kind != "word":  # shape = (4, 32)
        close = _next(here, ")")
        if close is not None:
            yield f"a list is written `[{_text(here, opened + 1, close)}]`"
    if here.in_call and here.after_semicolon and here.near(-1) == "," and "NAME" in here.accepts:
        yield _bare_list(here)
    if here.in_call and here.near(-1) == ";" and here.kind in ("number", "string") and before:  # f(x; 3)
        declaration = rf"\b(?:block|op) {before.text}\([^;()]*;\s*(\w+)"
        declared = re.search(declaration, here.source.text)
        yield f"attributes are given by name: `{declared[1] if declared else 'name'} = {text}`"
    if text == "->" and here.item in ("rule", "test"):  # rule r { x -> y }
        yield "`=>` separates the sides"
    if text == "*" and here.near(-1) == "*":  # x ** 2
        base = here.near(-2) if tokens[here.at - 2].kind == "word" else ""
        shown = {"2": f"{base} * {base}", "0.5": f"sqrt({base})"}.get(here.near(1)) if base else None
        shown = f"`{shown}`" if shown else "a product, or `power(x; exponent = 3.0)`"
        yield f"there is no power operator; write {shown}"
    is_type = before is not None and (
        before.text in DTYPES or tokens[here.statement].text in ("input", "weight")
    )
    if (
        text in (":", ",") and bracket == "[" and before and before.kind == "word" and not is_type
    ):  # x[:, 0:4]
        yield "a part of a tensor is written `slice(x; axis = 0, start = 0, stop = 4)`"
    if text in ("?", ":") and bracket == "[" and before and before.text in DTYPES:  # f32[?, 4]
        yield KNOWN_DIMENSIONS
    if text == "=" and here.near(-1) == "]" and tokens[here.statement].text == "output":  # output y[i] = x
        name = tokens[here.statement + 1].text
        yield f"the name of an output has no index: bind `{name}[i] = ..`, then write `output {name}[..]`"


def _augmented(here: Place) -> Iterator[str]:
    """``y += x``"""
    end = here.statement_end
    name, value = _text(here, here.statement, here.at), _text(here, here.at + 2, end)
    compound = here.text != "+" and any(t.text in _OPERATORS for t in here.tokens[here.at + 2 : end])
    if value:
        yield f"write `{name} = {name} {here.text} {f'({value})' if compound else value}`"


def _bare_list(here: Place) -> str:
    """``perm = 1, 0``"""
    start = here.at
    while here.tokens[start - 1].text not in ("=", ";", "("):
        start -= 1
    close = here.at
    while close < len(here.tokens) and here.tokens[close].text not in (")", "=", "\n"):
        close += 1
    if close == len(here.tokens) or here.tokens[close].text == "=":
        close -= 2  # the comma and the name of the next attribute
    values = _text(here, start, close)
    return f"a list is written in brackets: `{here.tokens[start - 2].text} = [{values}]`"


def _next(here: Place, text: str) -> int | None:
    """The index of the next token with a text."""
    return next((i for i in range(here.at, len(here.tokens)) if here.tokens[i].text == text), None)


def _text(here: Place, start: int, end: int) -> str:
    """The source of some tokens, on one line."""
    if start >= end:
        return ""
    text = here.source.text[here.tokens[start].start : here.tokens[end - 1].end]
    shown = " ".join(text.split())
    return shown if len(shown) <= 60 else ".."
