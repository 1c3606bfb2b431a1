"""A graph as .tsr text that reads back as the same graph, laid out as ``tensat-dl fmt`` would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, isnan

from tensat_dl.core.expression import calls_of
from tensat_dl.core.graph import AttrValue, Graph, Node, TensorType, splits
from tensat_dl.lang import ast
from tensat_dl.lang.declare import Declared
from tensat_dl.lang.node_names import IDENTIFIER, Names, forbidden, node_names
from tensat_dl.lang.print_doc import INDENT, render
from tensat_dl.lang.print_expr import quoted, statement
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.tokens import RESERVED
from tensat_dl.ops.table import INFIX, AttrDecl, OpTable
from tensat_dl.ops.typing import neighbour

_SYMBOLS = {op: symbol for symbol, op in INFIX.items()}


def header(declared: Mapping[str, Declared], graph: Graph) -> str:
    """The text of each of these operators that the graph uses, or that such an operator is made of."""
    wanted = [n.op for n in graph.nodes if n.op in declared]
    used: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in used:
            used.add(name)
            wanted += [call.fn for call in calls_of(declared[name].item.composition) if call.fn in declared]
    items = tuple(op.item for name, op in declared.items() if name in used)
    return print_file(ast.File(items, (), span=ast.NOWHERE)) if items else ""


def graph_to_tsr(graph: Graph, ops: OpTable, header: str = "", comments: Iterable[str] = ()) -> str:
    """The text of a graph: inputs, weights, what is computed from weights alone, the rest, outputs.

    ``header`` goes first: the imports or declarations of operators that are not in the library. ``comments``
    are texts that follow as comments. Names of outputs that are no identifiers are changed to some.
    """
    notes = [f"// {line}".rstrip() for text in comments for line in text.splitlines()]
    parts = [header.strip(), "\n".join(notes), "\n".join(_Printer(graph, ops).lines())]
    return "\n\n".join(p for p in parts if p) + "\n"


class _Printer:
    """The statements of one graph."""

    def __init__(self, graph: Graph, ops: OpTable) -> None:
        self.graph = graph
        self.ops = ops
        self.names = node_names(graph, ops)
        self.spare = Names(forbidden(ops).union(self.names))
        self.inline = _inline(graph, ops)
        self.splits = splits(graph)
        #: For a node with several outputs and the number of one of them the ``proj`` that reads it.
        self.read = {
            (n.inputs[0], _int(n.attr("index"))): j for j, n in enumerate(graph.nodes) if n.op == "proj"
        }

    def lines(self) -> list[str]:
        nodes = self.graph.nodes
        constant = self.graph.weights_only()
        inputs: list[int] = []
        weights: list[int] = []
        ahead: list[int] = []
        rest: list[int] = []
        for i, node in enumerate(nodes):
            if node.op == "input":
                inputs.append(i)
            elif node.op in ("weight", "fill"):
                weights.append(i)
            else:
                (ahead if constant[i] else rest).append(i)
        lines = [f"graph {_graph_name(self.graph.name)} {{"]
        for indices, title in (
            (inputs, ""),
            (weights, ""),
            (ahead, "// computed once, ahead of time"),
            (rest, ""),
        ):
            statements = self._statements(indices)
            if statements and len(lines) > 1:
                lines.append("")
            if statements and title:
                lines.append(" " * INDENT + title)
            lines += map(_line, statements)
        if len(lines) > 1:
            lines.append("")
        lines.append(_line(self._outputs()))
        return [*lines, "}"]

    def _statements(self, indices: Iterable[int]) -> list[ast.SimpleStmt]:
        out: list[ast.SimpleStmt] = []
        for i in indices:
            node, name = self.graph.nodes[i], self.names[i]
            if i in self.inline or node.op == "proj":
                continue  # printed where they are used, or with the node that they belong to
            (target,) = ast.targets([name], ast.NOWHERE)
            if i in self.splits:
                # Every part needs only the tensor that is split: all can be bound where the first one stands.
                if i == min(self.splits[i]):
                    out.append(self._split(self.splits[i]))
            elif node.op == "fill":
                value = _literal(node.attr("value"))
                out.append(ast.Weight(target, _type(node.type), value, span=ast.NOWHERE))
            elif node.op == "input" and node.attr("name") == name:
                out.append(ast.Input(target, _type(node.type), span=ast.NOWHERE))
            elif node.op == "weight" and node.attr("name") == name:
                out.append(ast.Weight(target, _type(node.type), None, span=ast.NOWHERE))
            elif len(node.types) > 1:
                out.append(self._several(i))
            else:
                out.append(_bind([name], self._application(node)))
        return out

    def _application(self, node: Node) -> ast.Expr:
        args = [self._operand(j) for j in node.inputs]
        attrs = self._attrs(node)
        if node.op in _SYMBOLS and len(args) == 2 and not attrs:
            return ast.Binary(_SYMBOLS[node.op], args[0], args[1], span=ast.NOWHERE)
        return ast.call(node.op, args, attrs, ast.NOWHERE)

    def _operand(self, i: int) -> ast.Expr:
        return _literal(self.graph.nodes[i].attr("value")) if i in self.inline else _name(self.names[i])

    def _attrs(self, node: Node) -> list[ast.KeywordArg]:
        """Attributes that differ from their defaults."""
        given = dict(node.attrs)
        declared = [a for a in self.ops[node.op].attrs if a.name in given]
        return [ast.keyword(a.name, _attr(a, given[a.name])) for a in declared if given[a.name] != a.default]

    def _several(self, i: int) -> ast.Bind:
        """A node with several outputs. All of them must be bound, also those that nobody reads."""
        node = self.graph.nodes[i]
        targets = []
        for k in range(len(node.types)):
            spare = f"{self.names[i]}_unused_{k}"
            targets.append(self.names[self.read[i, k]] if (i, k) in self.read else self.spare.unique(spare))
        return _bind(targets, self._application(node))

    def _split(self, parts: Sequence[int]) -> ast.Bind:
        first = self.graph.nodes[parts[0]]
        axis = _int(first.attr("axis"))
        sizes = [self.graph.nodes[i].type.shape[axis] for i in parts]
        attrs = [ast.keyword("axis", _literal(axis)), ast.keyword("sizes", _list(sizes))]
        call = ast.call("split", [_name(self.names[first.inputs[0]])], attrs, ast.NOWHERE)
        return _bind([self.names[i] for i in parts], call)

    def _outputs(self) -> ast.Output:
        """Outputs that are called like their value come without it."""
        taken = Names(RESERVED)
        items: list[ast.OutputItem] = []
        for name, i in self.graph.outputs:
            shown = taken.claim(name) if taken.free(name) else taken.unique(name)
            other = None if shown == self.names[i] else shown
            items.append(ast.OutputItem(other, _name(self.names[i]), span=ast.NOWHERE))
        return ast.Output(tuple(items), span=ast.NOWHERE)


def _inline(graph: Graph, ops: OpTable) -> set[int]:
    """Scalar constants that can be written as numbers at every place where they are used.

    A number takes its element type from its `neighbour`. Where all operands are numbers they stay names: infix
    notation would compute a number.
    """
    nodes = graph.nodes
    used = {j for node in nodes for j in node.inputs}
    outputs = {i for _, i in graph.outputs}
    found = {
        i
        for i in used - outputs
        if nodes[i].op == "fill" and not nodes[i].type.shape and _is_finite(nodes[i])
    }
    while True:
        wrong: set[int] = set()
        for node in nodes:
            numbers = found.intersection(node.inputs)
            tensors = (k for k, j in enumerate(node.inputs) if j not in numbers)
            beside = neighbour(ops.get(node.op), tensors)
            dtype = None if beside is None else nodes[node.inputs[beside]].types[0].dtype
            wrong |= {j for j in numbers if nodes[j].type.dtype != dtype}
        if not wrong:
            return found
        found -= wrong


def _is_finite(fill: Node) -> bool:
    value = fill.attr("value")
    return isinstance(value, float | int) and isfinite(value)


def _graph_name(name: str) -> str:
    usable = IDENTIFIER.fullmatch(name) and name not in RESERVED
    return name if usable else Names(RESERVED).unique(name or "graph")


def _line(stmt: ast.SimpleStmt) -> str:
    return " " * INDENT + render(statement(stmt), INDENT)


def _bind(names: Sequence[str], value: ast.Expr) -> ast.Bind:
    return ast.Bind(ast.targets(names, ast.NOWHERE), value, span=ast.NOWHERE)


def _type(type: TensorType) -> ast.TypeExpr:
    return ast.TypeExpr(type.dtype, tuple(map(_literal, type.shape)), span=ast.NOWHERE)


def _attr(decl: AttrDecl, value: AttrValue) -> ast.Expr:
    """The value of an attribute as it is written."""
    if isinstance(value, tuple):
        same = decl.length is not None and len(set(value)) == 1
        return _literal(value[0]) if same else _list(value)
    if isinstance(value, str):
        return _name(quoted(value) if decl.type == "string" else value)
    return _literal(value)


def _list(values: Sequence[int]) -> ast.ListExpr:
    return ast.ListExpr(tuple(map(_literal, values)), span=ast.NOWHERE)


def _name(text: str) -> ast.Name:
    return ast.Name(text, span=ast.NOWHERE)


def _literal(value: AttrValue) -> ast.Const:
    """A number or a truth value."""
    assert isinstance(value, int | float)
    if isinstance(value, bool):
        return ast.Const(value, "bool", str(value).lower(), span=ast.NOWHERE)
    if isinstance(value, int):
        return ast.integer(value, ast.NOWHERE)
    return ast.Const(value, "float", _float(value), span=ast.NOWHERE)


def _float(value: float) -> str:
    """The shortest text that reads back as this float. NaN has no literal."""
    return "inf - inf" if isnan(value) else repr(value)


def _int(value: AttrValue) -> int:
    assert isinstance(value, int)
    return value
