"""From an ONNX model to a graph.

The graph has a node for each computed value of the model, with the value's ``name``. A node without an operator in
the language is opaque. A value without a type in the language is a handle (`HANDLE`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import onnx
import onnx_ir as ir

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import Graph, GraphBuilder, TensorType, leaf_attrs
from tensat_dl.lang.library import library_operators
from tensat_dl.lang.program import Program, load_program
from tensat_dl.onnx.facts import ModelFacts, resolved
from tensat_dl.onnx.inputs import read_inputs, sizes
from tensat_dl.onnx.model_files import NEWEST, OLDEST, converted, failed, opset, read_model
from tensat_dl.onnx.opaque import Originals, impure_functions, operands
from tensat_dl.onnx.operator import Reading, Unmapped
from tensat_dl.onnx.operators import READ
from tensat_dl.onnx.ranges import another, checked_dims, complete, half
from tensat_dl.onnx.recipes import DIFFERENT, Recipes
from tensat_dl.onnx.tensors import HANDLE, constant, tensor_type
from tensat_dl.onnx.turning import Turning
from tensat_dl.onnx.typical_sizes import at_sizes, typical
from tensat_dl.onnx.validity import refuse_invalid
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.sizes.dim_sizes import DimSizes, dim_sizes, ranges_in_text
from tensat_dl.sizes.fixed import fixed_sizes
from tensat_dl.sizes.open_shapes import Elsewhere, Shape
from tensat_dl.sizes.resized import Resized

#: How many opaque operators a summary lists.
SHOWN = 6


@dataclass(frozen=True, repr=False)
class Imported:
    """A model, its graph, and the relations between both.

    ``aliases`` are values that are another value of the model (name -> name), ``originals`` the nodes of opaque
    operators. ``unmapped`` says why nodes are opaque: (operator, reason) -> how many.
    """

    path: str
    model: ir.Model
    graph: Graph
    program: Program
    header: str  #: the declarations of the opaque operators
    dims: Mapping[str, int]  #: sizes of the dimensions that the model leaves open
    said: Mapping[str, DimSizes]  #: where an answer has to hold and what it is optimized for, of these
    typical: Sequence[str]  #: the names of those whose sizes nobody gave
    shapes: Mapping[str, Shape]  #: of values at these sizes
    elsewhere: Sequence[Mapping[str, Shape]]  #: shapes of values where one of these has another size
    turning: Sequence[Mapping[str, int]]  #: other sizes at which the model may do something else
    #: If it is optimized for several sizes of a dimension: those of all, and the shapes of values there.
    mix: Sequence[tuple[Mapping[str, int], Mapping[str, Shape]]]
    constants: Mapping[str, ir.TensorProtocol]
    aliases: Mapping[str, str]
    originals: Mapping[str, ir.Node]
    unmapped: Mapping[tuple[str, str], int]
    nodes: int  #: of the model, constants aside
    older: int = 0  #: the operator set of the file, if the model was converted from that
    given: Mapping[str, Array] | None = None  #: inputs of the user's
    #: Tells it from what was read another time, when the file or what else it was read from may have been another.
    reading: str = field(default_factory=lambda: uuid4().hex, compare=False)

    def __repr__(self) -> str:
        return f"<Imported {self.path}: {self.nodes} nodes>"

    @property
    def opaque(self) -> int:
        """How many nodes are opaque."""
        return sum(self.unmapped.values())

    def fixed_sizes(self, egraph: EGraph, graph: Graph) -> BoolArray:
        """[N] which e-nodes of what was explored from a graph, the model's or one that holds at all sizes of the open
        dimensions, hold for the given sizes only."""
        there = [Elsewhere(self.graph, self.program.ops, known) for known in self.elsewhere]
        return fixed_sizes(egraph, graph, self.program.ops, there)

    def sizes_of_mix(self) -> tuple[Resized | None, ...]:
        """If it is optimized for several sizes of a dimension, graphs there; None where the sizes are the graph's."""
        return tuple(
            None if dims == self.dims else Resized(Elsewhere(self.graph, self.program.ops, known))
            for dims, known in self.mix
        )

    def resized(self, dims: Mapping[str, int]) -> Resized:
        """Graphs at these sizes of open dimensions."""
        return Resized(Elsewhere(self.graph, self.program.ops, ModelFacts(self.model, dims).shapes()))

    def within(self, name: str, sizes: DimSizes) -> Imported:
        """The model for a narrower range of a dimension's sizes: at the middle one of those that it has there."""
        dims = at_sizes(self.dims, {name: sizes.sizes[len(sizes.sizes) // 2]})
        return replace(self, said={**self.said, name: sizes}, dims=dims, mix=())

    def summary(self) -> str:
        """The number of nodes and of opaque nodes, as in ``12 nodes, 1 of them opaque (8%): Resize ×1``, with the
        reason where the operator as such is known, and the operator set of the file where that was too old."""
        if not self.nodes:
            return "no nodes"
        text = f"{self.nodes} nodes"
        if self.older:
            text += f", converted from opset {self.older} to {opset(self.model)}"
        if not self.opaque:
            return f"{text}, none of them opaque"
        named: Counter[str] = Counter()
        for (op, reason), count in self.unmapped.items():
            named[op if reason == "no such operator" else f"{op} ({reason})"] += count
        items = [f"{name} ×{count}" for name, count in sorted(named.items(), key=lambda n: (-n[1], n[0]))]
        more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
        share = self.opaque / self.nodes
        return f"{text}, {self.opaque} of them opaque ({share:.0%}): {', '.join(items[:SHOWN])}{more}"

    def sizes(self) -> str:
        """The sizes of open dimensions, as in ``batch = 1, time = 128``, and which are typical ones; "" if all
        dimensions are known."""
        text = ", ".join(f"{name} = {', '.join(map(str, d.sizes))}" for name, d in self.said.items())
        which = (
            "typical sizes" if len(self.typical) == len(self.dims) else "typical: " + ", ".join(self.typical)
        )
        text = f"{text} ({which}; --dim gives others)" if self.typical else text
        text += "; costs are the means over several sizes" if self.mix else ""
        ranges = ranges_in_text(self.said)
        return f"{text}; for {ranges} only" if ranges else text

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "nodes": self.nodes,
            "opaque": self.opaque,
            "dims": dict(self.dims),
            "typical": list(self.typical),
            "ranges": {name: [d.low, d.high] for name, d in self.said.items() if d.high is not None},
            "mix": {name: list(d.sizes) for name, d in self.said.items() if d.mixed},
            "sizes": self.sizes(),
            "opset": opset(self.model),
            "converted_from": self.older or None,
            "reasons": [
                {"operator": op, "reason": reason, "count": count}
                for (op, reason), count in self.unmapped.items()
            ],
        }


def import_model(
    path: str, dims: Mapping[str, object], rules: Sequence[str] = (), inputs: str | None = None
) -> Imported:
    """Reads a model. ``dims`` says the sizes of its open dimensions (see `DimSizes.of`), which an .npz file of
    ``inputs`` gives, too. Raises `TsrError`, and TypeError and ValueError for what is no size."""
    model, older = read_model(path), 0
    refuse_invalid(path, model)
    if 0 < opset(model) < OLDEST:
        model, older = converted(model, path), opset(model)
    given = None if inputs is None else read_inputs(inputs, model)
    if inputs is not None and given is not None:
        dims = sizes(inputs, model, given, dim_sizes(dims))
    return imported(model, path, dims, rules, given, older)


def imported(
    model: ir.Model,
    path: str,
    dims: Mapping[str, object],
    rules: Sequence[str] = (),
    given: Mapping[str, Array] | None = None,
    older: int = 0,
) -> Imported:
    """A model whose file is at the path, with what ``dims`` says of its open dimensions, and inputs of the user's, if
    there are any. Conditions that are known give way in ``model`` to the branches that are taken. Raises
    `TsrError`, TypeError, ValueError."""
    asked = checked_dims(path, model, dim_sizes(dims))
    bound = typical(path, model, asked)
    said = {name: complete(asked.get(name), size) for name, size in bound.items()}
    mix = [at_sizes(bound, {name: n}) for name, d in said.items() if d.mixed for n in d.sizes]
    others_of = {name: n for name, d in said.items() if (n := another(d, bound[name]))}
    examined = [{**bound, name: n} for name, n in others_of.items()]
    ends = [{**bound, name: n} for name, d in said.items() if d.high is not None for n in (d.low, d.high)]
    known = [bound, *examined, *mix, *ends]

    turning: list[dict[str, int]] = []

    def further(facts: ModelFacts, others: Sequence[ModelFacts]) -> list[dict[str, int]]:
        turning[:] = Turning.of(model, facts, others).sizes(bound, said)
        return turning

    facts, *others = resolved(model, known, further)
    for i, name in enumerate(others_of):  # half of a size, where that was not examined
        if (n := half(said[name], bound[name])) < min(bound[name], others_of[name]):
            others[i] = _where_it_runs(model, facts, others[i], {**bound, name: n})
    shapes = [f.shapes() for f in others[: len(examined) + len(mix)]]
    in_mix = list(zip(mix, shapes[len(examined) :], strict=True))
    odd = _odd(bound, turning, others[len(others) - len(turning) :])
    reader = _ModelReader(path, model, facts, others)
    graph = reader.graph()
    header = "\n\n".join(reader.originals.declarations.values())
    program = load_program(path, tuple(rules), Source(path, header))
    return Imported(
        path,
        model,
        graph,
        program,
        header,
        bound,
        said,
        [name for name in bound if name not in asked or not (asked[name].sizes or asked[name].fixed)],
        facts.shapes(),
        [*shapes[: len(examined)], *(there for at, there in in_mix if at != bound), *odd],
        [{name: n for name, n in sizes.items() if n != bound[name]} for sizes in turning],
        in_mix,
        facts.constants,
        reader.aliases,
        reader.originals.nodes,
        reader.unmapped,
        reader.nodes,
        older,
        given,
    )


def _odd(
    bound: Mapping[str, int], turning: Sequence[Mapping[str, int]], facts: Sequence[ModelFacts]
) -> Iterator[Mapping[str, Shape]]:
    """The shapes at the largest odd size of each dimension, of those at which the model may do something else: where
    a size is rounded up to a multiple of 8, twice a size may tell nothing."""
    for name in bound:
        found = {
            sizes[name]: f
            for sizes, f in zip(turning, facts, strict=True)
            if sizes == {**bound, name: sizes[name]} and sizes[name] % 2
        }
        if found:
            yield found[max(found)].shapes()


def _where_it_runs(
    model: ir.Model, facts: ModelFacts, other: ModelFacts, sizes: Mapping[str, int]
) -> ModelFacts:
    """The facts at another size, or at these ``sizes`` if more is known there: a model that has a largest size, as
    that of a table of positions, has no shapes beyond it."""
    known = len(other.shapes())
    if known >= len(facts.shapes()):
        return other
    smaller = ModelFacts(model, sizes)
    return smaller if len(smaller.shapes()) > known else other


class _ModelReader:
    """Reads a model at the sizes of its ``facts``. What it is at ``others``, other sizes of its open dimensions,
    tells what is true at all: a value that is another one there is no constant, and a node that is something else
    there stays as it is."""

    def __init__(self, path: str, model: ir.Model, facts: ModelFacts, others: Sequence[ModelFacts]) -> None:
        self.path = path
        self.model = model
        self.facts = facts
        self._varying = frozenset(name for name in facts.constants if facts.differs(name, others))
        self._recipes = Recipes(facts, others, self._varying, opset(model))
        self._producers = {str(v.name): node for node in model.graph for v in node.outputs if v.name}
        self.builder = GraphBuilder(model.graph.name or Path(path).stem)
        self.originals = Originals(facts.constants, impure_functions(model))
        self.aliases: dict[str, str] = {}
        self.unmapped: Counter[tuple[str, str]] = Counter()
        self.nodes = 0
        self._index: dict[str, int] = {}  #: value -> node of the graph
        self._opset = opset(model)

    def graph(self) -> Graph:
        for value in self.model.graph.inputs:
            name = str(value.name)
            if name not in self.facts.constants:
                self._leaf("input", name)
        for node in self.model.graph:
            if all(v.name in self.facts.constants for v in node.outputs if v.name):
                continue  # where something needs its value, it is a weight, or is read if it varies
            self._add(node)
        outputs = []
        for value in self.model.graph.outputs:
            found = self._operand(str(value.name))
            if found is None:
                raise failed(self.path, f"nothing computes the output {value.name}", "the model is not valid")
            outputs.append((str(value.name), found))
        self.builder.opaque = frozenset(self.originals.declarations)
        return self.builder.finish(outputs)

    # ---- nodes -------------------------------------------------------------------------------------------

    def _add(self, node: ir.Node) -> None:
        self.nodes += 1
        try:
            self._bind(node, self._read(node))
        except Unmapped as reason:
            self.unmapped[node.op_type, str(reason)] += 1
            self._bind(node, self._pass_through(node))

    def _read(self, node: ir.Node) -> Sequence[int]:
        """A node by the table of operators. Raises `Unmapped`."""
        if (function := self.model.functions.get(node.op_identifier())) is not None:
            of = function.opset_imports.get("", self._opset)
            raise Unmapped(
                "the model has a function of this name" if of == self._opset else f"a function of opset {of}"
            )
        read = READ.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if read is None:
            raise Unmapped("no such operator")
        if not onnx.defs.has(node.op_type, self._opset):
            raise Unmapped(f"opset {self._opset} has no such operator")
        schema = onnx.defs.get_schema(node.op_type, self._opset)
        if schema.since_version > NEWEST:
            raise Unmapped(f"opset {schema.since_version} changed it")
        if not self._recipes.alike(node, read):
            raise Unmapped(DIFFERENT)
        ops = library_operators()
        found = read(Reading(node, self.facts, ops, self.builder, self._opset, self._tensor, self._varying))
        results = [found] if isinstance(found, int) else list(found)
        for value, result in zip(node.outputs, results, strict=False):
            made = self.builder.nodes[result]
            if value.name and self._type(str(value.name)) != made.type:
                raise Unmapped(f"its type is {made.type} in one place")
            if value.name and made.name and not self._recipes.same_shapes(str(value.name), made.name):
                raise Unmapped(DIFFERENT)
        return results

    def _pass_through(self, node: ir.Node) -> list[int]:
        """An opaque node; a value for each output, -1 for those that are left out."""
        inputs = []
        for value in operands(node, self.facts.constants):
            found = self._operand(str(value.name))
            if found is None:
                message = f"a node {node.op_type} takes {value.name}, which nothing computes before it"
                raise failed(self.path, message, "the model is not valid")
            inputs.append(found)
        types = tuple(self._type(str(v.name)) for v in node.outputs if v.name)
        op, attrs = self.originals.add(node, len(inputs), types)
        whole = self.builder.add(op, inputs, attrs, types)
        parts = [whole]
        if len(types) > 1:
            parts = [self.builder.add("proj", (whole,), (("index", k),), (t,)) for k, t in enumerate(types)]
        results = iter(parts)
        return [next(results) if v.name else -1 for v in node.outputs]

    def _bind(self, node: ir.Node, results: Sequence[int]) -> None:
        """Names the results of a node."""
        for value, result in zip(node.outputs, results, strict=False):
            name = str(value.name)
            if result < 0 or not value.name:
                continue
            self._index[name] = result
            known = self.builder.nodes[result]
            if known.name:
                self.aliases[name] = known.name
            else:
                self.builder.nodes[result] = replace(known, name=name)

    # ---- values ------------------------------------------------------------------------------------------

    def _type(self, name: str) -> TensorType:
        return tensor_type(self.facts.types.get(name)) or HANDLE

    def _operand(self, name: str) -> int | None:
        """The node of a value, made now if it is a constant."""
        if name in self._index:
            return self._index[name]
        if name in self._varying:
            self._add(self._producers[name])
            return self._index[name]
        tensor = self.facts.constants.get(name)
        if tensor is None:
            return None
        op, attrs = constant(name, tensor, self._type(name))
        if op == "weight":
            return self._leaf(op, name)
        found = self._index[name] = self.builder.add(op, (), attrs, (self._type(name),))
        if not self.builder.nodes[found].name:
            self.builder.nodes[found] = replace(self.builder.nodes[found], name=name)
        return found

    def _tensor(self, name: str) -> int | None:
        """The node of a value that the language has a type for."""
        found = self._operand(name)
        return found if tensor_type(self.facts.types.get(name)) is not None else None

    def _leaf(self, op: str, name: str) -> int:
        type = self._type(name)
        self._index[name] = self.builder.add(op, (), leaf_attrs(name, type), (type,), name)
        return self._index[name]
