"""A graph as .tsr text that reads back as the same graph, laid out as ``tensat-dl fmt`` would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite, isnan

from tensat_dl.core.graph import AttrValue, Graph, Node
from tensat_dl.core.splits import splits
from tensat_dl.core.types import TensorType
from tensat_dl.lang.node_names import IDENTIFIER, RESERVED, Names, forbidden, node_names
from tensat_dl.lang.print_doc import INDENT, Break, Doc, DocGroup, Fill, Nest, join, render
from tensat_dl.lang.print_expr import bracketed, listed, quoted
from tensat_dl.ops.table import INFIX, AttrDecl, OpTable
from tensat_dl.ops.typing import neighbour

_SYMBOLS = {op: symbol for symbol, op in INFIX.items()}


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
        once = self._statements(ahead)
        sections = [
            self._statements(inputs),
            self._statements(weights),
            ["// computed once, ahead of time", *once] if once else [],
            self._statements(rest),
            [self._outputs()],
        ]
        lines = [f"graph {_graph_name(self.graph.name)} {{"]
        for section in sections:
            if section and len(lines) > 1:
                lines.append("")
            lines += [" " * INDENT + render(statement, INDENT) for statement in section]
        return [*lines, "}"]

    def _statements(self, indices: Iterable[int]) -> list[Doc]:
        out: list[Doc] = []
        for i in indices:
            node, name = self.graph.nodes[i], self.names[i]
            if i in self.inline or node.op == "proj":
                continue  # printed where they are used, or with the node that they belong to
            if i in self.splits:
                # Every part needs only the tensor that is split: all can be bound where the first one stands.
                if i == min(self.splits[i]):
                    out.append(self._split(self.splits[i]))
            elif node.op == "fill":
                out.append((f"weight {name} : ", _type(node.type), f" = {_scalar(node.attr('value'))}"))
            elif node.op in ("input", "weight") and node.attr("name") == name:
                out.append((f"{node.op} {name} : ", _type(node.type)))
            elif len(node.types) > 1:
                out.append(self._several(i))
            else:
                out.append(self._application(name, node))
        return out

    def _application(self, target: Doc, node: Node) -> Doc:
        args = [self._operand(j) for j in node.inputs]
        attrs = self._attrs(node)
        if node.op in _SYMBOLS and len(args) == 2 and not attrs:
            infix = (args[0], Nest((Break(), f"{_SYMBOLS[node.op]} {args[1]}")))
            return (target, " = ", DocGroup(infix))
        return (target, " = ", _call(node.op, args, attrs))

    def _operand(self, i: int) -> str:
        return _scalar(self.graph.nodes[i].attr("value")) if i in self.inline else self.names[i]

    def _attrs(self, node: Node) -> list[Doc]:
        """Attributes that differ from their defaults."""
        given = dict(node.attrs)
        declared = [a for a in self.ops[node.op].attrs if a.name in given]
        return [(a.name, " = ", _attr(a, given[a.name])) for a in declared if given[a.name] != a.default]

    def _several(self, i: int) -> Doc:
        """A node with several outputs. All of them must be bound, also those that nobody reads."""
        node = self.graph.nodes[i]
        targets = []
        for k in range(len(node.types)):
            spare = f"{self.names[i]}_unused_{k}"
            targets.append(self.names[self.read[i, k]] if (i, k) in self.read else self.spare.unique(spare))
        return self._application(_targets(targets), node)

    def _split(self, parts: Sequence[int]) -> Doc:
        first = self.graph.nodes[parts[0]]
        axis = _int(first.attr("axis"))
        sizes = tuple(self.graph.nodes[i].type.shape[axis] for i in parts)
        attrs: list[Doc] = [f"axis = {axis}", ("sizes = ", _list(sizes))]
        call = _call("split", [self.names[first.inputs[0]]], attrs)
        return (_targets([self.names[i] for i in parts]), " = ", call)

    def _outputs(self) -> Doc:
        """Outputs that are called like their value come without it."""
        taken = Names(RESERVED)
        items: list[Doc] = []
        for name, i in self.graph.outputs:
            shown = taken.claim(name) if taken.free(name) else taken.unique(name)
            items.append(shown if shown == self.names[i] else f"{shown} = {self.names[i]}")
        return listed("output", items)


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


def _call(op: str, args: Sequence[Doc], attrs: Sequence[Doc]) -> Doc:
    """``op(args; attrs)``. If it is broken into lines, arguments and attributes have lines of their own."""
    if not args and not attrs:
        return f"{op}()"
    if not attrs:
        inside: Doc = DocGroup(join(list(args)))
    elif not args:
        inside = ("; ", DocGroup(join(list(attrs))))
    else:
        inside = (DocGroup(join(list(args))), ";", Break(), DocGroup(join(list(attrs))))
    return (op, bracketed("(", inside, ")"))


def _type(type: TensorType) -> Doc:
    dims = join([str(d) for d in type.shape])
    return (type.dtype, bracketed("[", dims, "]") if type.shape else "[]")


def _targets(names: Sequence[str]) -> Doc:
    return bracketed("(", join(list(names)), ")") if len(names) > 1 else names[0]


def _attr(decl: AttrDecl, value: AttrValue) -> Doc:
    """The value of an attribute as it is written."""
    if isinstance(value, tuple):
        same = decl.length is not None and len(set(value)) == 1
        return str(value[0]) if same else _list(value)
    return quoted(value) if decl.type == "string" and isinstance(value, str) else _scalar(value)


def _list(values: Sequence[int]) -> Doc:
    return bracketed("[", Fill(tuple(map(str, values))), "]") if values else "[]"


def _scalar(value: AttrValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _float(value) if isinstance(value, float) else str(value)


def _float(value: float) -> str:
    """The shortest text that reads back as this float. What has no literal is computed by overflow."""
    if isnan(value):
        return "1e308 * 10.0 - 1e308 * 10.0"
    if value in (inf, -inf):
        return f"{'-' if value < 0 else ''}1e308 * 10.0"
    return repr(value)


def _int(value: AttrValue) -> int:
    assert isinstance(value, int)
    return value
