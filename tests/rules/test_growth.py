"""Growth that buys nothing: parts of a graph that share constants alone make no e-graph of all combinations."""

from __future__ import annotations

from tensat_dl.engine.exploration import Limits
from tests.explore.graphs import graph_of, pack, steps_of

#: Layer norms as people write them; each # stands for a number, as every norm has its own input and weights.
NORMS = (
    "u# = reduce_sum(x#; axis = 1) / 128.0\n c# = x# - u#\n"
    "output c# * w# / sqrt(0.00001 + (1.0 / 128.0 * reduce_sum(x# * x#; axis = 1) - u# * u#)) + b#",
    "u# = reduce_sum(x#; axis = 1) / 128.0\n c# = x# - u#\n"
    "output b# + c# / power(0.00001 + reduce_mean(c# * c#; axis = 1); exponent = 0.5)",
    "u# = 0.0078125 * reduce_sum(x#; axis = 1)\n v# = reduce_sum(power(x# - u#; exponent = 2.0); axis = 1)\n"
    "output (x# - u#) * power(v# * 0.0078125 + 1e-12; exponent = -0.5)",
    "u# = 1.0 / 128.0 * reduce_sum(x#; axis = 1)\n c# = x# - u#\n"
    "output w# * c# / power(reduce_mean(power(c#; exponent = 2.0); axis = 1) + 0.00001; exponent = 0.5) + b#",
    "u# = 1.0 / 128.0 * reduce_sum(x#; axis = 1)\n v# = reduce_mean(x# * x#; axis = 1) - u# * u#\n"
    "output b# + w# / power(0.00001 + v#; exponent = 0.5) * (x# - u#)",
)


def graph(norms: tuple[str, ...]) -> str:
    leaves = "input x# : f32[64, 128]\n weight w# : f32[128]\n weight b# : f32[128]"
    return "\n".join(f"{leaves}\n{norm}".replace("#", str(i)) for i, norm in enumerate(norms))


def test_independent_norms_have_the_e_nodes_of_each() -> None:
    rules = pack("standard")
    limits = Limits(nodes=5_000)
    alone = [steps_of(graph_of(graph((norm,))), rules, limits)[-1] for norm in NORMS]
    together = steps_of(graph_of(graph(NORMS * 2)), rules, limits)[-1]
    assert together.stop == "saturated"
    assert together.egraph.num_nodes <= 2 * sum(s.egraph.num_nodes for s in alone)
