"""Writes graphs as models: an optimized graph into the model that it came from, or any graph as a new model.

A node that is computed exactly as in the model keeps the model's nodes, names and open dimensions. Other nodes are
written anew. So parts of the model that no rule changed stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import onnx_ir as ir

from tensat_dl.core.graph import Graph, Node, value_numbers
from tensat_dl.lang.print_doc import flat
from tensat_dl.lang.print_expr import expression
from tensat_dl.lang.print_sizes import integer
from tensat_dl.onnx.encode import Encoder, Unwritable
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.model_files import failed, opset
from tensat_dl.onnx.opaque import operands
from tensat_dl.onnx.operator import NodeWriter, OnnxTensor
from tensat_dl.onnx.operators.movement import write_reshape
from tensat_dl.onnx.ranges import record
from tensat_dl.onnx.shapes_taken import Shapes, take_shapes
from tensat_dl.onnx.subgraphs import captured, release
from tensat_dl.onnx.tensors import ONNX_DTYPES
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.symbolic import Int
from tensat_dl.ops.table import OpTable
from tensat_dl.sizes.named import OpenGraph, other_sizes
from tensat_dl.sizes.open_shapes import Elsewhere, asked, stretched
from tensat_dl.verify.weights import draw_values

#: A model of its own is written with the oldest operators among which are all that the language has a name for.
OPSET, IR_VERSION = 20, 9


def random_weights(graph: Graph, seed: int) -> Callable[[str], Array]:
    """Values for weights by name, as verification draws them."""
    return draw_values([graph], seed, {}).__getitem__


def build(
    graph: Graph, ops: OpTable, weight: Callable[[str], Array], opened: OpenGraph | None = None
) -> ir.Model:
    """The model that computes a graph of the language. Sizes of the ``opened`` graph stay open, as far as reshapes
    can ask for them. Raises `TsrError` for an operator that ONNX does not have."""
    given = {i: ir.Value(name=str(graph.nodes[i].attr("name"))) for i in graph.inputs}
    inputs = list(given.values())
    outputs = {name for name, _ in graph.outputs}
    shapes = [n.type.shape if len(n.types) == 1 else () for n in graph.nodes]
    elsewhere = []
    if opened is not None:
        elsewhere = [dict(enumerate(opened.shapes_at(sizes))) for sizes in other_sizes(opened.sizes)]
    for i, value in given.items():
        _declare(value, graph.nodes[i], opened.shapes[i][0] if opened else shapes[i])
    made = ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name=graph.name)
    writer = NodeWriter(made, OPSET)
    encoder = Encoder(graph, ops, writer, weight)
    for i, node in enumerate(graph.nodes):
        if i in given:
            encoder.tensors[i] = OnnxTensor(given[i], node.type)
        elif encoder.known[i]:
            if i in encoder.taken:
                name = str(node.attr("name")) if node.op == "weight" else node.name or node.op
                encoder.fold(i, f"{name}_value" if name in outputs else name)  # an output is another value
        elif node.op == "reshape" and elsewhere:
            (j,) = node.inputs
            target = asked(shapes.__getitem__, j, i, graph.inputs, elsewhere) or shapes[i]
            encoder.tensors[i] = write_reshape(writer, encoder.tensors[j], node.type, target, inputs)
        elif i not in encoder.tensors:
            try:
                encoder.encode(i)
            except Unwritable as e:
                reason = "an opaque operator has types only" if graph.opaque else "ONNX has no such operator"
                raise failed(graph.name, f"`{e}` can't be written to ONNX", reason) from None
    for name, i in graph.outputs:
        value = encoder.tensors[i].value
        if not (value.is_graph_input() and value.name == name):
            if value.producer() is None or value in made.outputs:
                value = writer.op("Identity", value)
            value.name = name if name not in {v.name for v in inputs} else writer.name(name)
        _declare(value, graph.nodes[i], opened.shapes[i][0] if opened else shapes[i])
        made.outputs.append(value)
    model = ir.Model(made, ir_version=IR_VERSION, producer_name="tensat-dl")
    _sweep(made)
    return model


def _declare(value: ir.Value, node: Node, shape: Sequence[Int]) -> None:
    value.type = ir.TensorType(ONNX_DTYPES[node.type.dtype])
    value.shape = ir.Shape([d if isinstance(d, int) else flat(expression(integer(d))) for d in shape])


def _sweep(graph: ir.Graph) -> None:
    """Sorts the nodes of a model's graph, and removes nodes and initialisers that no output needs.

    onnx-ir's own pass removes more: optional inputs and outputs of nodes that stay.
    """
    graph.sort()
    for node in reversed(graph):
        if not any(v.uses() or v.is_graph_output() for v in node.outputs):
            release(node)
            graph.remove(node, safe=True)
    inputs = set(graph.inputs)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output() and value not in inputs:
            del graph.initializers[name]


def export(imported: Imported, graph: Graph) -> ir.Model:
    """The model that computes ``graph``, which is equivalent to the one that was imported. Raises `TsrError`."""
    model = imported.model.clone()
    _Exporter(imported, graph, model).run()
    if (model.ir_version or 0) < 4 and not {*model.graph.initializers.values()} <= {*model.graph.inputs}:
        model.ir_version = 4  # before, all weights were inputs, too
    record(model, imported.said)
    return model


class _Exporter:
    def __init__(self, imported: Imported, graph: Graph, model: ir.Model) -> None:
        self.imported = imported
        self.graph = graph
        self.model = model
        self.values = ir.convenience.create_value_mapping(model.graph, include_subgraphs=False)
        self.writer = NodeWriter(model.graph, opset(model))
        #: For each of other sizes of the open dimensions, the shapes of the graph's nodes.
        self.elsewhere = [
            Elsewhere(imported.graph, imported.program.ops, known).shapes(graph)
            for known in imported.elsewhere
        ]
        self.encoder = Encoder(
            graph,
            imported.program.ops,
            self.writer,
            lambda name: imported.constants[name].numpy(),
            self.elsewhere,
        )
        self._before = len(model.graph)
        self._copied: dict[int, list[ir.Value]] = {}  #: what opaque nodes give that were written anew

    def run(self) -> None:
        for alias, name in self.imported.aliases.items():
            if not self.values[alias].is_graph_output():
                self.values[alias].replace_all_uses_with(self.values[name])
        numbers: dict[Hashable, int] = {}
        before = value_numbers(self.imported.graph, numbers)
        original = {k: n.name for k, n in zip(before, self.imported.graph.nodes, strict=True) if n.name}
        after = value_numbers(self.graph, numbers)
        for i, node in enumerate(self.graph.nodes):
            if after[i] in original and len(node.types) == 1:
                self.encoder.tensors[i] = OnnxTensor(self._value(original[after[i]]), node.type)
            elif self.encoder.known[i]:
                if i in self.encoder.taken:
                    self._fold(i)
            elif after[i] in before and len(node.types) > 1:
                continue  # its outputs are the model's own
            elif i not in self.encoder.tensors:
                self._write(i)
        self._outputs(before, after)
        taken = take_shapes(self.writer, self._shapes())
        if taken or self.imported.aliases or len(self.model.graph) > self._before:
            _sweep(self.model.graph)

    # ---- values ------------------------------------------------------------------------------------------

    def _value(self, name: str) -> ir.Value:
        """A value of the model; a constant that only type inference knew becomes an initialiser."""
        value = self.values[name]
        producer, tensor = value.producer(), self.imported.constants.get(name)
        computed = producer is not None and producer.op_type != "Constant"
        if tensor is None or not computed or self.imported.elsewhere or value.is_graph_output():
            return value
        found = self.writer.weight(ir.tensor(tensor.numpy()), name)
        value.replace_all_uses_with(found)
        self.values[name] = found
        return found

    def _fold(self, i: int) -> None:
        node = self.graph.nodes[i]
        try:
            self.encoder.fold(i, node.name or f"{node.op}_folded")
        except ValueError as e:
            raise failed(self.imported.path, f"{node.op} of weights can't be computed: {e}") from None

    # ---- nodes -------------------------------------------------------------------------------------------

    def _write(self, i: int) -> None:
        node = self.graph.nodes[i]
        if node.op == "proj":
            index = node.attr("index")
            assert isinstance(index, int)
            self.encoder.tensors[i] = OnnxTensor(self._copied[node.inputs[0]][index], node.type)
        elif node.op in self.graph.opaque:
            self._copied[i] = self._copy(node)
            if len(node.types) == 1:
                self.encoder.tensors[i] = OnnxTensor(self._copied[i][0], node.type)
        elif node.op == "reshape" and self.elsewhere:
            self.encoder.tensors[i] = self._reshape(i)
        elif node.op == "expand" and (shape := self._open_expansion(i)) is not None:
            (j,) = node.inputs
            value = self.writer.op("Expand", self.encoder.tensors[j].value, shape)
            self.encoder.tensors[i] = OnnxTensor(value, node.type)
        else:
            try:
                self.encoder.encode(i)
            except Unwritable as e:
                message = f"ONNX has no operator for {e}"
                raise failed(self.imported.path, message, "use fewer rule packs") from None

    def _reshape(self, i: int) -> OnnxTensor:
        """A reshape that fits other sizes of the open dimensions, too."""
        nodes, (j,) = self.graph.nodes, self.graph.nodes[i].inputs
        target = asked(lambda k: nodes[k].type.shape, j, i, self.graph.inputs, self.elsewhere)
        if target is None:  # only the model's own reshape can say it
            if (former := self._former(nodes[i], "Reshape")) is not None:
                value = self.writer.op("Reshape", self.encoder.tensors[j].value, former.inputs[1])
                return OnnxTensor(value, nodes[i].type)
            target = list(nodes[i].type.shape)
        values = [self.values[str(nodes[k].attr("name"))] for k in self.graph.inputs]
        return write_reshape(self.writer, self.encoder.tensors[j], nodes[i].type, target, values)

    def _open_expansion(self, i: int) -> ir.Value | None:
        """The shape that the model computes for an expansion whose sizes are open, if it is of such an operand."""
        node, (j,) = self.graph.nodes[i], self.graph.nodes[i].inputs
        here = stretched(self.graph.nodes[j].type.shape, node.type.shape)
        known = [there for there in self.elsewhere if {i, j} <= there.keys()]
        former = self._former(node, "Expand")
        if former is None or all(stretched(there[j], there[i]) == here for there in known):
            return None
        operand, shape = former.inputs
        name = operand.name if operand is not None else None
        pairs = zip(self.imported.elsewhere, self.elsewhere, strict=True)
        return shape if all(named.get(name or "") == there.get(j) for named, there in pairs) else None

    def _former(self, node: Node, op_type: str) -> ir.Node | None:
        """The model's own node of this type that a node has its name of; None if there is none."""
        value = self.values.get(node.name) if self.elsewhere else None
        former = None if value is None else value.producer()
        return former if former is not None and former.op_type == op_type else None

    def _copy(self, node: Node) -> list[ir.Value]:
        """An opaque node with other operands, which its subgraphs may take, too; the values that it gives."""
        source = self.imported.originals[str(node.attr("node"))]
        old = self.values[next(str(v.name) for v in source.outputs if v.name)].producer()
        assert old is not None
        operand: dict[ir.Value, ir.Value] = {}
        for value, j in zip(operands(source, self.imported.constants), node.inputs, strict=True):
            name = str(value.name)
            for known in (name, self.imported.aliases.get(name, name)):
                operand[self.values[known]] = self.encoder.tensors[j].value
        taken = list(dict.fromkeys((*(v for v in old.inputs if v is not None), *captured(old))))
        alone = ir.GraphView(taken, [], nodes=[old]).clone()
        new = {v: operand.get(former, former) for v, former in zip(alone.inputs, taken, strict=True)}
        (copy,) = alone
        for graph in (alone, *alone.subgraphs()):
            for inner in graph:
                for k, v in enumerate(inner.inputs):
                    if v in new:
                        inner.replace_input_with(k, new[v])
            for k, v in enumerate(graph.outputs):
                graph.outputs[k] = new.get(v, v)
        alone.remove(copy)
        results = [v for v in copy.outputs if v.name]
        for value in results:
            value.name, value.type, value.shape = self.writer.name(str(value.name)), None, None
        copy.name = self.writer.name(str(old.name or old.op_type))
        self.model.graph.append(copy)
        return results

    # ---- the rest of the model ---------------------------------------------------------------------------

    def _outputs(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Values that were written anew take the places of the model's outputs."""
        pairs = zip(self.imported.graph.outputs, self.graph.outputs, strict=True)
        made: dict[str, ir.Value] = {}  #: a model may give one output several times
        for position, ((name, old), (_, new)) in enumerate(pairs):
            if before[old] == after[new]:
                continue
            if name in made:
                self.model.graph.outputs[position] = made[name]
                continue
            former = self.model.graph.outputs[position]
            value = self.encoder.tensors[new].value
            if value is former:
                continue
            fresh = value.producer() is not None and value.name not in self.values
            if not fresh or value.is_graph_output():
                value = self.writer.op("Identity", value)
            former.name = self.writer.name(f"{name}_before")
            value.name = name
            value.type, value.shape = former.type, former.shape
            value.doc_string = former.doc_string
            value.metadata_props.update(former.metadata_props)
            self.model.graph.outputs[position] = made[name] = value

    def _shapes(self) -> dict[ir.Value, Shapes]:
        """The shapes of the model's own values and of those that were written, here and elsewhere, as far as they are
        known."""
        found: dict[ir.Value, Shapes] = {}
        looked_at = [self.imported.shapes, *self.imported.elsewhere]
        for name in self.imported.shapes:
            known = [shapes[name] for shapes in looked_at if name in shapes]
            if name in self.values and len(known) == len(looked_at):
                found[self.values[name]] = tuple(known)
        for i, tensor in self.encoder.tensors.items():
            known = [shapes[i] for shapes in self.elsewhere if i in shapes]
            if len(known) == len(self.elsewhere):
                found[tensor.value] = (tensor.type.shape, *known)
        return found
