"""A syntax error in plain words: what stands there, and what could stand there."""

from __future__ import annotations

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.lang.hints import STATEMENTS, hint, special_case
from tensat_dl.lang.tokens import ITEMS, words
from tensat_dl.lang.unexpected import Place, clipped

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
#: Terminals that mean one thing together: if the key's are all accepted, the others go without saying.
_ITEMS = words("DOC IMPORT OPAQUE OP RULE BLOCK GRAPH TEST")
_OP_STATEMENTS = words("REQUIRE LET SHAPE DTYPE FLOPS PRESET VIEW")
_GRAPH_STATEMENTS = words("INPUT WEIGHT OUTPUT RETURN FOR NAME LPAR")
_RULE_STATEMENTS = words("EACH NAME INT FLOAT STRING TRUE FALSE LSQB LPAR MINUS NOT IF")
_OPERANDS = words("NAME INT FLOAT STRING TRUE FALSE LSQB LPAR MINUS NOT IF")
_OPERATORS = words("PLUS MINUS JOIN TIMES DIVIDE MODULO AT COMPARE AND OR LSQB LPAR DOTS")


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
    for needed, implied, description in (
        ({"OP", "RULE", "GRAPH"}, _ITEMS, [f"`{word}`" for word in ITEMS]),
        ({"REQUIRE", "SHAPE"}, _OP_STATEMENTS, [f"`{word}`" for word in STATEMENTS["op"]]),
        ({"INPUT", "OUTPUT"}, _GRAPH_STATEMENTS, ["a statement"]),
        ({"EACH", "NAME", "INT"}, _RULE_STATEMENTS, ["a pattern"]),
        ({"NAME", "INT"}, _OPERANDS, ["an expression"]),
        ({"PLUS", "TIMES"}, _OPERATORS, ["an operator"]),
    ):
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
    return (
        f"; expected {', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else f"; expected {names[0]}"
    )


def _word(terminal: str, here: Place) -> str:
    if terminal == "_SEP":
        return "`;`" if here.in_parens else "the end of the line"
    if terminal == "$END":
        return "the end of the file" if here.last_piece else "the next item"
    return _WORDS.get(terminal) or f"`{terminal.lower()}`"
