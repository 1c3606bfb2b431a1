"""What a graph of a text is, fused and extracted."""

from __future__ import annotations

from pathlib import Path

from tensat_dl.core.egraph import without_choices
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel
from tensat_dl.extract.api import extract
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.fuse.fuse import fuse
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.program import load_program
from tensat_dl.ops.table import OpTable
from tests.fuse.test_fuse import DEVICE


def fused_graph(text: str, folder: Path) -> tuple[Graph, OpTable, Graph, OpTable]:
    """The only graph of a text and the cheapest one with fused operators, each with the operators it may have."""
    (folder / "g.tsr").write_text(text)
    program = load_program(str(folder / "g.tsr"))
    (item,) = program.graphs.values()
    graph = elaborate(item, program.ops, program.blocks)
    found = fuse(without_choices(graph), program.ops, DEVICE)
    priced = CostModel(found.ops, DEVICE).price(found.egraph)[0]
    fused = rebuild(priced, extract(priced), graph)[0]
    return graph, program.ops, fused, found.ops
