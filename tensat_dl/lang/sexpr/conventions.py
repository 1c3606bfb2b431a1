"""What S-expression rules leave unsaid, and types tell: where ``split`` cuts, which shapes and ranks agree.

None of it is evaluated: a fact about a term is said as a fact about another term, which has fewer operators.
"""

from __future__ import annotations

from tensat_dl.lang.sexpr.terms import Apply, Parameter, SVariable, Term

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
