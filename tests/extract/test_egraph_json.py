from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import numpy as np
import pytest

from tensat_dl.core.egraph_json import EGraphFormatError, dumps, loads, loads_named
from tensat_dl.core.graph import TensorType
from tensat_dl.extract.api import extract
from tensat_dl.extract.extraction import ExtractionError

from .builders import egraph, random_egraph


@pytest.mark.parametrize("seed", range(20))
def test_round_trip(seed: int) -> None:
    graph = dataclasses.replace(random_egraph(random.Random(seed), 20, 4), source=np.zeros(0, dtype=np.int64))
    read = loads(dumps(graph))
    for name in ("node_class", "class_start", "offsets", "children"):
        assert getattr(read, name).tolist() == getattr(graph, name).tolist()
    assert read.op == graph.op
    assert set(read.roots) == set(graph.roots)
    if not graph.weights_only.any():
        assert read.cost.tolist() == graph.cost.tolist()
        assert dumps(read) == dumps(graph)


def test_what_is_left_without_some_e_nodes_is_written() -> None:
    whole = egraph(
        [[(0.0, [])], [(1.0, [0])], [(1.0, [1]), (2.0, [0])], [(3.0, [2]), (1.0, [4])], [(1.0, [1, 0])]], [3]
    )
    left = whole.without(np.array([op == "op1" for op in whole.op]))
    assert left.op == ("op0", "op3", "op4")
    assert [list(left.nodes_of(c)) for c in range(left.num_classes)] == [[0], [], [1], [2], []]
    assert set(json.loads(dumps(left))["nodes"]) == {"0.0", "2.0", "3.0"}


def test_a_source_that_needs_what_is_left_out_is_not_kept() -> None:
    """Its child was the input program's, too, and is not in the e-graph; another e-node of that class was."""
    whole = egraph([[(0.0, [])], [(1.0, [0]), (2.0, [])], [(3.0, [])]], [1], source=[-1, 1, 3])
    left = whole.without(np.array([True, False, False, False]))
    assert left.op == ("op2", "op3")
    assert left.source.tolist() == [-1, -1, 1]


def test_what_is_written() -> None:
    graph = dataclasses.replace(
        egraph([[(0.0, [])], [(1.5, [0, 0])]], [1, 1], weights_only=[0]),
        op=("weight", "matmul"),
        attrs=((("name", "w"),), (("act", "relu"), ("perm", (1, 0)), ("flag", True))),
        types=((TensorType("f32", (2, 3)),), (TensorType("f32", (3,)), TensorType("i64", ()))),
    )
    assert json.loads(dumps(graph)) == {
        "nodes": {
            "0.0": {"op": "weight[name = w]", "children": [], "eclass": "0", "cost": 0.0},
            "1.0": {
                "op": "matmul[act = relu, perm = [1, 0], flag = true]",
                "children": ["0.0", "0.0"],
                "eclass": "1",
                "cost": 1.5,
            },
        },
        "root_eclasses": ["1"],
        "class_data": {
            "0": {"type": "f32[2, 3]", "weights_only": True},
            "1": {"type": "f32[3], i64[]"},
        },
    }


def test_foreign_file() -> None:
    text = json.dumps(
        {
            "nodes": {
                "b": {"op": "f", "children": ["a2", "a1"], "eclass": "B", "cost": 2},
                "a1": {"op": "x", "eclass": "A", "children": []},
                "a2": {"op": "y", "eclass": "A", "children": [], "cost": 0.5},
            },
            "root_eclasses": ["B"],
            "comment": "ignored",
        }
    )
    graph, classes, nodes = loads_named(text)
    assert classes == ("B", "A")
    assert nodes == ("b", "a1", "a2")
    assert graph.op == ("f", "x", "y")
    assert graph.cost.tolist() == [2.0, 1.0, 0.5]  # the format's default cost is 1
    assert graph.children_of(0) == [1, 1]
    assert extract(graph).choices == {0: 0, 1: 2}


def test_a_subsumed_e_node_is_no_candidate() -> None:
    """It would be cheapest. Its e-class may still be named by it."""
    nodes = {
        "root": {"op": "f", "children": ["a1"], "eclass": "R", "cost": 1.0},
        "a1": {"op": "x", "children": [], "eclass": "A", "cost": 1.0, "subsumed": True},
        "a2": {"op": "y", "children": [], "eclass": "A", "cost": 5.0, "subsumed": False},
    }
    graph, _, names = loads_named(json.dumps({"nodes": nodes, "root_eclasses": ["R"]}))
    assert names == ("root", "a2")
    assert extract(graph).cost == 6.0
    del nodes["a2"]
    with pytest.raises(ExtractionError, match="no finite derivation"):
        extract(loads(json.dumps({"nodes": nodes, "root_eclasses": ["R"]})))


def test_one_name_for_two_e_nodes() -> None:
    node = json.dumps(NODE)
    text = f'{{"nodes": {{"a": {node}, "b": {node}, "a": {node}}}, "root_eclasses": ["A"]}}'
    with pytest.raises(EGraphFormatError, match="the name 'a' appears twice in one object"):
        loads(text)


NODE = {"op": "f", "children": [], "eclass": "A", "cost": 1.0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the file must be an object, not a list"),
        ({"root_eclasses": ["A"]}, "the file has no field 'nodes'"),
        ({"nodes": {"a": NODE}}, "the file has no field 'root_eclasses'"),
        ({"nodes": {"a": NODE}, "root_eclasses": []}, "root_eclasses is empty"),
        ({"nodes": {"a": NODE}, "root_eclasses": ["B"]}, "names 'B', which is not an e-class"),
        ({"nodes": {"a": 1}, "root_eclasses": ["A"]}, "e-node 'a' must be an object, not a number"),
        ({"nodes": {"a": NODE | {"cost": -1}}, "root_eclasses": ["A"]}, "e-node 'a' has cost -1.0"),
        ({"nodes": {"a": NODE | {"cost": float("nan")}}, "root_eclasses": ["A"]}, "e-node 'a' has cost nan"),
        ({"nodes": {"a": NODE | {"cost": float("inf")}}, "root_eclasses": ["A"]}, "e-node 'a' has cost inf"),
        ({"nodes": {"a": NODE | {"cost": 10**400}}, "root_eclasses": ["A"]}, "e-node 'a' has cost inf"),
        ({"nodes": {"a": NODE | {"cost": "1"}}, "root_eclasses": ["A"]}, "'cost' must not be a string"),
        ({"nodes": {"a": NODE | {"cost": True}}, "root_eclasses": ["A"]}, "'cost' must not be true or false"),
        (
            {"nodes": {"a": NODE | {"children": ["z"]}}, "root_eclasses": ["A"]},
            "the child 'z', which is not an",
        ),
        (
            {"nodes": {"a": NODE | {"children": [[]]}}, "root_eclasses": ["A"]},
            r"the child \[\], which is not an",
        ),
        ({"nodes": {"a": {"op": "f"}}, "root_eclasses": ["A"]}, "e-node 'a' has no field 'eclass'"),
        ({"nodes": {"a": {"eclass": "A"}}, "root_eclasses": ["A"]}, "e-node 'a' has no field 'op'"),
        ({"nodes": {"a": NODE | {"op": None}}, "root_eclasses": ["A"]}, "field 'op' must not be null"),
        ({"nodes": {"a": NODE | {"subsumed": 1}}, "root_eclasses": ["A"]}, "'subsumed' must not be a number"),
        ({"nodes": [], "root_eclasses": ["A"]}, "field 'nodes' must not be a list"),
    ],
)
def test_bad_files(data: Any, message: str) -> None:
    with pytest.raises(EGraphFormatError, match=message):
        loads(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "not JSON"), ("{", "not JSON"), ("[" * 100_000, "its JSON is nested too deeply")],
)
def test_not_json(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loads(text)


def test_an_unpriced_egraph_is_not_written() -> None:
    graph = dataclasses.replace(egraph([[(0.0, [])]], [0]), cost=np.full(1, np.nan))
    with pytest.raises(EGraphFormatError, match="price the e-graph first"):
        dumps(graph)
