"""From an optimized graph back to the model.

A node of the graph that is computed exactly as in the model stays the model's own: its nodes, names, open dimensions.
Others are written anew. So what no rule has touched is not touched here either.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import onnx_ir as ir

from tensat_dl.core.graph import Graph, Node, value_numbers
from tensat_dl.onnx.clean_up import sweep
from tensat_dl.onnx.encode import Encoder, Unwritable
from tensat_dl.onnx.fold import fold
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.opaque import operands
from tensat_dl.onnx.open_shapes import Shape, asked_shape, reshapes_of, shapes_elsewhere
from tensat_dl.onnx.operator import NodeWriter, OnnxTensor
from tensat_dl.onnx.operators.movement import write_reshape
from tensat_dl.onnx.reading import failed, opset
from tensat_dl.onnx.subgraphs import captured, subgraphs
from tensat_dl.ops.semantics.types import Array


def export(imported: Imported, graph: Graph) -> ir.Model:
    """The model that computes ``graph``, which is equivalent to the one that was imported. Raises `TsrError`."""
    model = imported.model.clone()
    _Exporter(imported, graph, model).run()
    return model


class _Exporter:
    def __init__(self, imported: Imported, graph: Graph, model: ir.Model) -> None:
        self.imported = imported
        self.graph = graph
        self.model = model
        self.values = _values(model.graph)
        self.nodes = {v: n for n in model.graph for v in n.outputs}
        self.writer = NodeWriter(model.graph, opset(model))
        self.encoder = Encoder(graph, imported.program.ops, self.writer)
        self.elsewhere = _elsewhere(imported, graph)
        self._before = len(model.graph)
        self._whole: dict[int, ir.Node] = {}  #: nodes with several outputs that were written anew

    def run(self) -> None:
        self._drop_aliases()
        numbers: dict[Hashable, int] = {}
        before = value_numbers(self.imported.graph, numbers)
        original = {k: n.name for k, n in zip(before, self.imported.graph.nodes, strict=True) if n.name}
        after = value_numbers(self.graph, numbers)
        known = self.graph.weights_only()
        # What is computed from weights alone is folded where something else takes it.
        taken = {j for i, n in enumerate(self.graph.nodes) if not known[i] for j in n.inputs}
        taken.update(i for _, i in self.graph.outputs)
        redone: dict[str, ir.Value] = {}
        for i, node in enumerate(self.graph.nodes):
            if after[i] in original and len(node.types) == 1:
                self.encoder.tensors[i] = OnnxTensor(self._value(original[after[i]]), node.type)
            elif known[i]:
                if i in taken:
                    self.encoder.tensors[i] = OnnxTensor(self._folded(i), node.type)
            elif after[i] in before and len(node.types) > 1:
                continue  # its outputs are the model's own
            elif i not in self.encoder.tensors:
                self._write(i)
            if node.name and i in self.encoder.tensors and after[i] not in original:
                redone[node.name] = self.encoder.tensors[i].value
        self._outputs(before, after)
        self._shapes_of(redone)
        if self.imported.aliases or len(self.model.graph) > self._before:
            sweep(self.model)

    # ---- values ------------------------------------------------------------------------------------------

    def _value(self, name: str) -> ir.Value:
        """A value of the model; a constant that only type inference knew becomes an initialiser."""
        value = self.values[name]
        producer, tensor = value.producer(), self.imported.constants.get(name)
        computed = producer is not None and producer.op_type != "Constant"
        if tensor is None or not computed or self.imported.dims or value.is_graph_output():
            return value
        found = self.writer.weight(ir.tensor(tensor.numpy()), name)
        value.replace_all_uses_with(found)
        self.values[name] = found
        return found

    def _drop_aliases(self) -> None:
        """Whatever takes an alias takes the value itself."""
        for alias, name in self.imported.aliases.items():
            value, real = self.values[alias], self.values[name]
            if not value.is_graph_output():
                value.replace_all_uses_with(real)

    def _array(self, name: str) -> Array:
        return self.imported.constants[name].numpy()

    def _folded(self, i: int) -> ir.Value:
        node = self.graph.nodes[i]
        try:
            tensor = fold(self.graph, self.imported.program.ops, i, self._array)
        except ValueError as e:
            raise failed(self.imported.path, f"{node.op} of weights can't be computed: {e}") from None
        return self.writer.weight(tensor, node.name or f"{node.op}_folded")

    # ---- nodes -------------------------------------------------------------------------------------------

    def _write(self, i: int) -> None:
        node = self.graph.nodes[i]
        if node.op == "proj":
            index = node.attr("index")
            assert isinstance(index, int)
            outputs = [v for v in self._whole[node.inputs[0]].outputs if v.name]
            self.encoder.tensors[i] = OnnxTensor(outputs[index], node.type)
        elif node.op in self.graph.opaque:
            copy = self._copy(node)
            if len(node.types) > 1:
                self._whole[i] = copy
            else:
                (value,) = [v for v in copy.outputs if v.name]
                self.encoder.tensors[i] = OnnxTensor(value, node.type)
        elif node.op == "reshape" and self.elsewhere:
            self.encoder.tensors[i] = self._reshape(i)
        else:
            try:
                self.encoder.encode(i)
            except Unwritable as e:
                message = f"ONNX has no operator for {e}"
                raise failed(self.imported.path, message, "use fewer rule packs") from None

    def _reshape(self, i: int) -> OnnxTensor:
        """A reshape that fits other sizes of the open dimensions, too."""
        nodes, (j,) = self.graph.nodes, self.graph.nodes[i].inputs
        pairs, inputs = [], [[nodes[k].type.shape] for k in self.graph.inputs]
        for there in self.elsewhere:
            old, new, given = there[j], there[i], [there[k] for k in self.graph.inputs]
            if old is not None and new is not None and None not in given:
                pairs.append((old, new))
                for shapes, shape in zip(inputs, given, strict=True):
                    shapes.append(shape or ())
        target = asked_shape(nodes[j].type.shape, nodes[i].type.shape, pairs, inputs)
        if target is None:  # only the model's own reshape can say it, by a shape that the model computes
            former = self.values.get(nodes[i].name)
            producer = None if former is None else former.producer()
            if producer is not None and producer.op_type == "Reshape":
                value = self.writer.op("Reshape", self.encoder.tensors[j].value, producer.inputs[1])
                return OnnxTensor(value, nodes[i].type)
            target = list(nodes[i].type.shape)
        values = [self.values[str(nodes[k].attr("name"))] for k in self.graph.inputs]
        return write_reshape(self.writer, self.encoder.tensors[j], nodes[i].type, target, values)

    def _copy(self, node: Node) -> ir.Node:
        """An opaque node with other operands."""
        source = self.imported.originals[str(node.attr("node"))]
        old = self.nodes[self.values[next(str(v.name) for v in source.outputs if v.name)]]
        new: dict[ir.Value, ir.Value] = {}
        taken = operands(source, lambda v: str(v.name) in self.imported.constants)
        for value, j in zip(taken, node.inputs, strict=True):
            name = str(value.name)
            for known in (name, self.imported.aliases.get(name, name)):
                new[self.values[known]] = self.encoder.tensors[j].value
        inside = {v: new[v] for v in captured(old) if v in new}
        attributes = [_recaptured(a, inside) for a in old.attributes.values()]
        outputs = [ir.Value(name=self.writer.name(str(v.name)) if v.name else "") for v in old.outputs]
        copy = ir.Node(
            old.domain,
            old.op_type,
            [None if v is None else new.get(v, v) for v in old.inputs],
            attributes,
            outputs=outputs,
            overload=old.overload,
            name=self.writer.name(str(old.name or old.op_type)),
            doc_string=old.doc_string,
            metadata_props=dict(old.metadata_props),
        )
        self.model.graph.append(copy)
        return copy

    # ---- the rest of the model ---------------------------------------------------------------------------

    def _outputs(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Values that were written anew take the places of the model's outputs."""
        pairs = zip(self.imported.graph.outputs, self.graph.outputs, strict=True)
        for position, ((name, old), (_, new)) in enumerate(pairs):
            if before[old] == after[new]:
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
            self.model.graph.outputs[position] = value

    def _shapes_of(self, redone: Mapping[str, ir.Value]) -> None:
        """Where only the shape of a value is asked for, that of the value that took its place does."""
        for name, value in redone.items():
            former = self.values.get(name)
            if former is None or former is value:
                continue
            for use in tuple(former.uses()):
                if use.node.op_type in ("Shape", "Size") and use.node.domain == "":
                    use.node.replace_input_with(use.idx, value)


def _elsewhere(imported: Imported, graph: Graph) -> list[list[Shape | None]]:
    """For each of other sizes of the open dimensions, the shapes of the graph's nodes."""
    found, ops, original = [], imported.program.ops, imported.graph
    for known in imported.elsewhere:
        there = shapes_elsewhere(original, ops, known, {})
        found.append(shapes_elsewhere(graph, ops, known, reshapes_of(original, there)))
    return found


def _recaptured(attr: ir.Attr, inside: Mapping[ir.Value, ir.Value]) -> ir.Attr:
    """An attribute as another node has it: its subgraphs are copies, and take other values from around them."""
    if attr.is_ref() or attr.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return attr
    graphs = [attr.as_graph()] if attr.type == ir.AttributeType.GRAPH else list(attr.as_graphs())
    copies = []
    for graph in graphs:
        copy = graph.clone(allow_outer_scope_values=True)
        for node in ir.traversal.RecursiveGraphIterator(copy):
            for k, value in enumerate(node.inputs):
                if value is not None and value in inside:
                    node.replace_input_with(k, inside[value])
            for inner in (copy, *subgraphs(node)):
                for k, value in enumerate(inner.outputs):
                    if value in inside:
                        inner.outputs[k] = inside[value]
        copies.append(copy)
    if attr.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(attr.name, copies[0])
    return ir.AttrGraphs(attr.name, copies)


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    """The values of a graph by name."""
    found = {str(v.name): v for v in (*graph.inputs, *graph.initializers.values())}
    found |= {str(v.name): v for node in graph for v in node.outputs if v.name}
    return found
