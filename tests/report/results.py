"""Graphs read from text and results made by hand, for the tests of reports."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from tensat_dl.core.graph import Graph
from tensat_dl.cost.model import PricedGraph
from tensat_dl.engine.exploration import Iteration, RuleStats
from tensat_dl.extract.extraction import Extraction
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.named_sizes import named_sizes
from tensat_dl.lang.program import load_program
from tensat_dl.ops.table import OpTable
from tensat_dl.resources import rules
from tensat_dl.run.options import Options
from tensat_dl.run.result import Result, Times
from tensat_dl.verify.equivalence import Equivalence, OutputError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tsr"))

BEFORE = """
graph shared {
  input x : f32[8, 16]
  weight a : f32[16, 16]
  weight b : f32[16, 8]
  output p = tanh(x @ a), q = x @ b
}
"""
AFTER = """
graph shared {
  input x : f32[8, 16]
  weight a : f32[16, 16]
  weight b : f32[16, 8]
  (first, second) = split(x @ concat(a, b; axis = 1); axis = 1, sizes = [16, 8])
  output p = tanh(first), q = second
}
"""


@cache
def library() -> OpTable:
    """The operators of the library."""
    return load_program(str(rules() / "ops.tsr")).ops


def read(path: Path) -> tuple[Graph, OpTable]:
    """The only graph of a file, and the operators that the file knows."""
    program = load_program(str(path))
    (item,) = program.graphs.values()
    sizes = {s.name: s.default for s in named_sizes(item, program.ops)}
    return elaborate(item, program.ops, program.blocks, sizes=sizes), program.ops


def read_text(text: str, folder: Path) -> tuple[Graph, OpTable]:
    path = folder / "graph.tsr"
    path.write_text(text, encoding="utf-8")
    return read(path)


def canonical(graph: Graph) -> object:
    """Equal for graphs that differ only in the order and names of nodes, and in repeated nodes."""
    digests: list[str] = []
    for n in graph.nodes:
        content = repr((n.op, n.attrs, n.types, [digests[j] for j in n.inputs]))
        digests.append(sha256(content.encode()).hexdigest())
    return (
        sorted(set(digests)),
        [(name, digests[i]) for name, i in graph.outputs],
        [graph.nodes[i].attrs for i in graph.inputs],
    )


def priced(graph: Graph, measured: str = "") -> PricedGraph:
    """Nodes cost their elements in microseconds; views and leaves are free."""
    constant = graph.weights_only()
    free = ("input", "slice", "reshape", "transpose")
    cost = tuple(
        0.0 if constant[i] or n.op in free else sum(t.size for t in n.types) / 1000
        for i, n in enumerate(graph.nodes)
    )
    known = tuple(n.op == measured for n in graph.nodes)
    return PricedGraph(graph, cost, known, sum(graph.nodes[i].type.nbytes for i in graph.weights))


def result(before: Graph, after: Graph, notes: tuple[str, ...] = ("a note",), measured: str = "") -> Result:
    """A finished run that found ``after``."""
    stats = (RuleStats("merge-matmul-rhs", 2, 2, 6, 0.01, "held back"), RuleStats("unused", 0, 0, 0, 0.0))
    sides = [priced(g, measured) for g in (before, after)]
    outputs = tuple(OutputError(name, "equivalent", 3e-16, 1e-16, "") for name, _ in before.outputs)
    return Result(
        options=Options(device="h100"),
        before=sides[0],
        after=sides[1],
        stop="saturated",
        iterations=(Iteration(20, 15, 0.1, stats), Iteration(1234, 700, 0.2, ())),
        nodes=1234,
        classes=700,
        extraction=Extraction({}, sides[1].total, sides[1].total * 0.9, "feasible", "exact", 1.5),
        equivalence=Equivalence("equivalent", 3e-16, 1e-16, outputs, 0.2, "seed 0, float64", (), ""),
        times=Times(0.05, 2.0, 0.1, 1.5, 0.2, total=3.9),
        notes=notes,
        rules_used=(("merge-matmul-rhs", 4),),
    )
