"""A graph as .tsr text that reads back as the same graph, laid out as ``tensat-dl fmt`` would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, isnan

from tensat_dl.core.expression import calls_of
from tensat_dl.core.graph import INTEGERS, AttrValue, Graph, Node, splits
from tensat_dl.lang import ast
from tensat_dl.lang.declare import Declared
from tensat_dl.lang.node_names import IDENTIFIER, Names, forbidden, node_names
from tensat_dl.lang.print_doc import INDENT, render
from tensat_dl.lang.print_expr import quoted, statement
from tensat_dl.lang.print_expr import sizes as print_sizes
from tensat_dl.lang.print_sizes import declared, integer
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.tokens import RESERVED
from tensat_dl.ops.compositions import neighbour
from tensat_dl.ops.symbolic import Int, add
from tensat_dl.ops.table import INFIX, AttrDecl, OpTable
from tensat_dl.sizes.named import OpenAttr, OpenGraph

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


def graph_to_tsr(
    graph: Graph,
    ops: OpTable,
    header: str = "",
    comments: Iterable[str] = (),
    opened: OpenGraph | None = None,
) -> str:
    """The text of a graph: inputs, weights, what is computed from weights alone, the rest, outputs.

    ``header`` goes first: the imports or declarations of operators that are not in the library. ``comments``
    are texts that follow as comments. Names of outputs that are no identifiers are changed to some. The sizes of a
    graph that is ``opened`` are written with names.
    """
    notes = [f"// {line}".rstrip() for text in comments for line in text.splitlines()]
    parts = [header.strip(), "\n".join(notes), "\n".join(_Printer(graph, ops, opened).lines())]
    return "\n\n".join(p for p in parts if p) + "\n"


class _Printer:
    """The statements of one graph."""

    def __init__(self, graph: Graph, ops: OpTable, opened: OpenGraph | None) -> None:
        self.graph = graph
        self.ops = ops
        self.opened = opened
        sizes = () if opened is None else [s.name for s in opened.sizes]
        self.names = node_names(graph, ops, sizes)
        self.spare = Names(forbidden(ops).union(self.names, sizes))
        self.inline = _inline(graph, ops)
        self.splits = {i: parts for i, parts in splits(graph).items() if self._is_split(parts)}
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
        sizes = "" if self.opened is None else render(print_sizes(declared(self.opened.sizes)))
        lines = [f"graph {_graph_name(self.graph.name)}{sizes} {{"]
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
                value = _constant(node)
                out.append(ast.Weight(target, self._type(i), value, span=ast.NOWHERE))
            elif node.op == "input" and node.attr("name") == name:
                out.append(ast.Input(target, self._type(i), span=ast.NOWHERE))
            elif node.op == "weight" and node.attr("name") == name:
                out.append(ast.Weight(target, self._type(i), None, span=ast.NOWHERE))
            elif len(node.types) > 1:
                out.append(self._several(i))
            else:
                out.append(_bind([name], self._application(i)))
        return out

    def _type(self, i: int) -> ast.TypeExpr:
        type = self.graph.nodes[i].type
        dims = type.shape if self.opened is None else self.opened.shapes[i][0]
        return ast.TypeExpr(type.dtype, tuple(map(integer, dims)), span=ast.NOWHERE)

    def _application(self, i: int) -> ast.Expr:
        node = self.graph.nodes[i]
        args = [self._operand(j) for j in node.inputs]
        attrs = self._attrs(i)
        if node.op in _SYMBOLS and len(args) == 2 and not attrs:
            return ast.Binary(_SYMBOLS[node.op], args[0], args[1], span=ast.NOWHERE)
        return ast.call(node.op, args, attrs, ast.NOWHERE)

    def _operand(self, i: int) -> ast.Expr:
        return _constant(self.graph.nodes[i]) if i in self.inline else _name(self.names[i])

    def _attrs(self, i: int) -> list[ast.KeywordArg]:
        """Attributes that differ from their defaults, at some sizes at least."""
        node = self.graph.nodes[i]
        given = dict(node.attrs)
        opened = {} if self.opened is None else self.opened.attrs[i]
        found = []
        for a in self.ops[node.op].attrs:
            if a.name in opened:
                found.append(ast.keyword(a.name, _open_attr(opened[a.name])))
            elif a.name in given and given[a.name] != a.default:
                found.append(ast.keyword(a.name, _attr(a, given[a.name])))
        return found

    def _several(self, i: int) -> ast.Bind:
        """A node with several outputs. All of them must be bound, also those that nobody reads."""
        node = self.graph.nodes[i]
        targets = []
        for k in range(len(node.types)):
            spare = f"{self.names[i]}_unused_{k}"
            targets.append(self.names[self.read[i, k]] if (i, k) in self.read else self.spare.unique(spare))
        return _bind(targets, self._application(i))

    def _is_split(self, parts: Sequence[int]) -> bool:
        """Whether slices that are a split at the default sizes are one at all sizes."""
        if self.opened is None:
            return True
        total: Int = 0
        for i in parts:
            node, opened = self.graph.nodes[i], self.opened.attrs[i]
            if opened.get("start", node.attr("start")) != total:
                return False
            total = add(total, self.opened.shapes[i][0][_int(node.attr("axis"))])
        first = self.graph.nodes[parts[0]]
        return total == self.opened.shapes[first.inputs[0]][0][_int(first.attr("axis"))]

    def _split(self, parts: Sequence[int]) -> ast.Bind:
        first = self.graph.nodes[parts[0]]
        axis = _int(first.attr("axis"))
        shapes = [
            self.graph.nodes[i].type.shape if self.opened is None else self.opened.shapes[i][0] for i in parts
        ]
        sizes = _open_attr(tuple(shape[axis] for shape in shapes))
        attrs = [ast.keyword("axis", _literal(axis)), ast.keyword("sizes", sizes)]
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


def _constant(fill: Node) -> ast.Const:
    """The number of a constant: a whole one where its elements are integers."""
    value = fill.attr("value")
    return _literal(int(value) if fill.type.dtype in INTEGERS and isinstance(value, float) else value)


def _graph_name(name: str) -> str:
    usable = IDENTIFIER.fullmatch(name) and name not in RESERVED
    return name if usable else Names(RESERVED).unique(name or "graph")


def _line(stmt: ast.SimpleStmt) -> str:
    return " " * INDENT + render(statement(stmt), INDENT)


def _bind(names: Sequence[str], value: ast.Expr) -> ast.Bind:
    return ast.Bind(ast.targets(names, ast.NOWHERE), value, span=ast.NOWHERE)


def _open_attr(value: OpenAttr) -> ast.Expr:
    """The value of an attribute that may depend on sizes."""
    if isinstance(value, tuple):
        return ast.ListExpr(tuple(map(integer, value)), span=ast.NOWHERE)
    return integer(value)


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
