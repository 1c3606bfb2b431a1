"""The declarations that an optimized graph needs in order to be read back."""

from __future__ import annotations

from collections.abc import Iterator

from tensat_dl.core.graph import Graph
from tensat_dl.core.source import Source, Span
from tensat_dl.lang import ast
from tensat_dl.lang.declare import Declared
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.program import Program
from tensat_dl.ops.table import INFIX


def header(program: Program, graph: Graph) -> str:
    """The text of every operator outside the library that the graph uses, or that such an operator is made of."""
    wanted = [n.op for n in graph.nodes if n.op in program.declared]
    chosen: dict[str, Declared] = {}
    while wanted:
        name = wanted.pop()
        if name in chosen:
            continue
        chosen[name] = program.declared[name]
        used = _operators(chosen[name].item.composition)
        wanted += [n for n in used if n in program.declared]
    items = tuple(op.item for name, op in program.declared.items() if name in chosen)
    empty = Source("", "")
    return print_file(ast.File(items, (), span=Span(empty, 0, 0))) if items else ""


def _operators(expr: object) -> Iterator[str]:
    match expr:
        case ast.Call(fn, args):
            yield fn
            for a in args if isinstance(args, tuple) else ():
                yield from _operators(a)
        case ast.Binary(op, left, right):
            if op in INFIX:
                yield INFIX[op]
            yield from _operators(left)
            yield from _operators(right)
