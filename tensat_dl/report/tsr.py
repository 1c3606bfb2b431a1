"""A graph as .tsr text that reads back as the same graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite, isnan

from tensat_dl.ir.graph import AttrValue, Graph, Node
from tensat_dl.ops.table import INFIX, AttrDecl, OpTable
from tensat_dl.report.names import IDENTIFIER, RESERVED, Names, forbidden, node_names

WIDTH = 100
INDENT = "  "
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
        self.inline = _inline(graph)
        self.splits = _splits(graph)

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
        if once:
            once.insert(0, "// computed once, ahead of time")
        sections = [
            self._statements(inputs),
            self._statements(weights),
            once,
            self._statements(rest),
            [self._outputs()],
        ]
        lines = [f"graph {_graph_name(self.graph.name)} {{"]
        for section in sections:
            if section and len(lines) > 1:
                lines.append("")
            lines += [INDENT + line for statement in section for line in statement.split("\n")]
        return [*lines, "}"]

    def _statements(self, indices: Iterable[int]) -> list[str]:
        out = []
        for i in indices:
            node, name = self.graph.nodes[i], self.names[i]
            if i in self.inline or node.op == "proj":
                continue  # printed where they are used, or with the node that they belong to
            if i in self.splits:
                # Every part needs only the tensor that is split: all can be bound where the first one stands.
                if i == min(self.splits[i]):
                    out.append(self._split(self.splits[i]))
            elif node.op == "fill":
                out.append(f"weight {name} : {node.type} = {_value(node.attr('value'))}")
            elif node.op in ("input", "weight") and node.attr("name") == name:
                out.append(f"{node.op} {name} : {node.type}")
            elif len(node.types) > 1:
                out.append(self._several(i))
            else:
                out.append(self._application(name, node))
        return out

    def _application(self, target: str, node: Node) -> str:
        args = [self._operand(j) for j in node.inputs]
        attrs = self._attrs(node)
        if node.op in _SYMBOLS and len(args) == 2 and not attrs:
            return f"{target} = {args[0]} {_SYMBOLS[node.op]} {args[1]}"
        return _call(target, node.op, args, attrs)

    def _operand(self, i: int) -> str:
        return _value(self.graph.nodes[i].attr("value")) if i in self.inline else self.names[i]

    def _attrs(self, node: Node) -> list[str]:
        """Attributes that differ from their defaults."""
        given = dict(node.attrs)
        declared = [a for a in self.ops[node.op].attrs if a.name in given]
        return [f"{a.name} = {_attr(a, given[a.name])}" for a in declared if given[a.name] != a.default]

    def _several(self, i: int) -> str:
        """A node with several outputs. All of them must be bound, also those that nobody reads."""
        node = self.graph.nodes[i]
        read = {
            p.attr("index"): j for j, p in enumerate(self.graph.nodes) if p.op == "proj" and p.inputs == (i,)
        }
        targets = [
            self.names[read[k]] if k in read else self.spare.unique(f"{self.names[i]}_unused_{k}")
            for k in range(len(node.types))
        ]
        return self._application(f"({', '.join(targets)})", node)

    def _split(self, parts: Sequence[int]) -> str:
        first = self.graph.nodes[parts[0]]
        axis = _int(first.attr("axis"))
        sizes = ", ".join(str(self.graph.nodes[i].type.shape[axis]) for i in parts)
        targets = ", ".join(self.names[i] for i in parts)
        attrs = [f"axis = {axis}", f"sizes = [{sizes}]"]
        return _call(f"({targets})", "split", [self.names[first.inputs[0]]], attrs)

    def _outputs(self) -> str:
        """Outputs that are called like their value come without it."""
        taken = Names(RESERVED)
        items = []
        for name, i in self.graph.outputs:
            shown = taken.claim(name) if taken.free(name) else taken.unique(name)
            items.append(shown if shown == self.names[i] else f"{shown} = {self.names[i]}")
        return _wrapped("output ", items, "")


def _inline(graph: Graph) -> set[int]:
    """Scalar constants that can be written as numbers at every place where they are used.

    A number takes its element type from the first operand that is not a number. Where all operands are
    numbers they stay names: infix notation would compute a number.
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
            dtype = next((nodes[j].types[0].dtype for j in node.inputs if j not in numbers), None)
            wrong |= {j for j in numbers if nodes[j].type.dtype != dtype}
        if not wrong:
            return found
        found -= wrong


def _is_finite(fill: Node) -> bool:
    value = fill.attr("value")
    return isinstance(value, float | int) and isfinite(value)


def _splits(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Slices that follow each other and cover a tensor, in that order: they read better as one ``split``."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "slice":
            groups.setdefault((node.inputs[0], _int(node.attr("axis"))), []).append(i)
    found: dict[int, tuple[int, ...]] = {}
    for (source, axis), members in groups.items():
        bounds = sorted(
            (_int(graph.nodes[i].attr("start")), _int(graph.nodes[i].attr("stop")), i) for i in members
        )
        starts = [start for start, _, _ in bounds]
        ends = [0, *(stop for _, stop, _ in bounds)]
        if len(members) > 1 and [*starts, graph.nodes[source].type.shape[axis]] == ends:
            parts = tuple(i for _, _, i in bounds)
            found.update(dict.fromkeys(parts, parts))
    return found


def _graph_name(name: str) -> str:
    usable = IDENTIFIER.fullmatch(name) and name not in RESERVED
    return name if usable else Names(RESERVED).unique(name or "graph")


def _call(target: str, op: str, args: Sequence[str], attrs: Sequence[str]) -> str:
    pieces = list(args)
    if attrs:
        # The first attribute follows a semicolon, which stays with the last argument when lines are broken.
        pieces = [*pieces[:-1], f"{pieces[-1]}; {attrs[0]}" if pieces else f"; {attrs[0]}", *attrs[1:]]
    return _wrapped(f"{target} = {op}(", pieces, ")")


def _wrapped(start: str, pieces: Sequence[str], end: str) -> str:
    """A comma-separated list, broken after commas if it is too long for one line."""
    lines, line = [], start
    for k, piece in enumerate(pieces):
        last = k == len(pieces) - 1
        item = piece + (end if last else ",")
        space = "" if k == 0 else " "
        if k > 0 and len(line) + len(space) + len(item) > WIDTH - len(INDENT):
            lines.append(line)
            line, space = INDENT * 2, ""
        line += space + item
    return "\n".join([*lines, line if pieces else start + end])


def _attr(decl: AttrDecl, value: AttrValue) -> str:
    """The value of an attribute as it is written."""
    if decl.length is not None and isinstance(value, tuple) and len(set(value)) == 1:
        return str(value[0])
    if decl.type == "string":
        return _string(str(value))
    return _value(value)


def _value(value: AttrValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        return _float(value)
    return str(value)


def _float(value: float) -> str:
    """The shortest text that reads back as this float. What has no literal is computed by overflow."""
    if isnan(value):
        return "1e308 * 10.0 - 1e308 * 10.0"
    if value in (inf, -inf):
        return f"{'-' if value < 0 else ''}1e308 * 10.0"
    return repr(value)


def _string(text: str) -> str:
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(char, escape)
    return f'"{text}"'


def _int(value: AttrValue) -> int:
    assert isinstance(value, int)
    return value
