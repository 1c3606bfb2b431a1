"""Instances are well-typed, small, diverse, rare ones among them, and the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import pytest

from tensat_dl import resources
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.typing import Inference, infer
from tensat_dl.ops.values import SymType
from tensat_dl.verify.rules import sampling
from tensat_dl.verify.rules.frame import WIDE_LIMIT
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.sampling import LIMIT, Sampler

pytestmark = pytest.mark.sampled(10)

#: Rules without small instances: small weights are not mirrored.
LARGE = {"mirror-matmul", "mirror-matmul-bias", "matmul-as-conv", "matmul-bias-as-conv"}


@cache
def library() -> Program:
    packs = sorted(p.stem for p in resources.rules().glob("*.tsr") if p.stem not in ("ops", "standard"))
    return load_program(str(resources.rules() / "standard.tsr"), tuple(packs))


@cache
def inference() -> Inference:
    return Inference(library().ops)


def rule_named(name: str) -> RewriteRule:
    return next(r for r in library().rules if r.name == name)


@cache
def instances(name: str, seed: int = 0, count: int = 40, without: tuple[int, ...] = ()) -> list[Instance]:
    sampler = Sampler(rule_named(name), inference(), seed, without)
    return [instance for _, _, instance in sampler.several(count, 150)]


def shapes(instance: Instance, name: str) -> tuple[int, ...]:
    return instance.assignment.types[name].shape


def attr(instance: Instance, name: str) -> Any:
    return instance.assignment.attrs[name]


@pytest.mark.parametrize("rule", library().rules, ids=lambda r: r.name)
def test_both_sides_are_well_typed(rule: RewriteRule) -> None:
    found = [i for _, _, i in sampling.instances(rule, inference(), 6, 150, seed=7)]
    # There are no more scalars than element types. At ranks where several attempts in a row fail no more are drawn.
    assert len(found) == {"smul-scalars": 3, "conv-batchnorm": 4}.get(rule.name, 6)
    for instance in found:
        for graph in (instance.before, instance.after):
            check_types(graph, WIDE_LIMIT if rule.name in LARGE else LIMIT)
        names = [n for n, _ in instance.before.outputs]
        assert [n for n, _ in instance.after.outputs] == names
        for (_, i), (_, j) in zip(instance.before.outputs, instance.after.outputs, strict=True):
            assert instance.before.nodes[i].types == instance.after.nodes[j].types


def check_types(graph: Graph, limit: int = LIMIT) -> None:
    """Every node has the type that its operator's declaration says, and at most so many elements."""
    for node in graph.nodes:
        inputs = [SymType(t.dtype, t.shape) for t in (graph.nodes[j].type for j in node.inputs)]
        assert infer(library().ops, node.op, inputs, dict(node.attrs)).concrete() == node.types
        assert all(prod(t.shape) <= limit for t in node.types)


def grouped(instance: Instance, x: str, w: str) -> int:
    return shapes(instance, x)[1] // shapes(instance, w)[1]


#: What has to come up among instances of a rule, seldom as it may be.
RARE: list[tuple[str, str, Callable[[Instance], bool]]] = [
    ("conv-groups", "different numbers of groups", lambda i: grouped(i, "x", "u") != grouped(i, "y", "v")),
    ("conv-groups", "groups", lambda i: grouped(i, "x", "u") > 1),
    ("conv-groups", "unequal channels", lambda i: shapes(i, "u")[0] != shapes(i, "v")[0]),
    ("conv-relu", "strides that differ", lambda i: len(set(attr(i, "s"))) > 1),
    ("conv-relu", "dilation", lambda i: max(attr(i, "d")) > 1 and max(shapes(i, "w")[2:]) > 1),
    ("conv-relu", "uneven pads", lambda i: len(set(attr(i, "p"))) > 2),
    ("conv-relu", "no pads", lambda i: not any(attr(i, "p"))),
    ("conv-relu", "kernels that are not square", lambda i: shapes(i, "w")[2] != shapes(i, "w")[3]),
    ("conv-relu", "more than one image", lambda i: shapes(i, "x")[0] > 1),
    ("slice-slice", "an inner offset", lambda i: attr(i, "a") > 0 and attr(i, "c") > 0),
    ("slice-slice", "the last axis", lambda i: attr(i, "k") == len(shapes(i, "x")) - 1 > 0),
    ("add-assoc", "different ranks", lambda i: len(shapes(i, "x")) != len(shapes(i, "z"))),
    ("add-assoc", "a stretched dimension", lambda i: i.before.nodes[-1].type.shape != shapes(i, "x")),
    ("add-assoc", "integers", lambda i: i.assignment.types["x"].dtype == "i32"),
    ("group-matmul-left", "2 members", lambda i: i.members == 2),
    ("group-matmul-left", "3 members", lambda i: i.members == 3),
    ("group-matmul-left", "4 members", lambda i: i.members == 4),
    ("group-matmul-left", "widths that differ", lambda i: shapes(i, "w[0]")[-1] != shapes(i, "w[1]")[-1]),
    ("group-matmul-left", "an activation", lambda i: attr(i, "f") != "none"),
    ("group-conv-input-grouped", "groups", lambda i: grouped(i, "x", "w[0]") > 1),
    ("group-conv-enlarge", "kernels that differ", lambda i: shapes(i, "w[0]")[2:] != shapes(i, "w[1]")[2:]),
    ("pair-conv-enlarge", "sizes", lambda i: shapes(i, "u")[2] + 1 < shapes(i, "v")[2]),
    (
        "transpose-transpose",
        "no involution",
        lambda i: any(attr(i, "p")[k] != j for j, k in enumerate(attr(i, "p"))),
    ),
    ("reshape-reshape", "other ranks", lambda i: len(attr(i, "s")) != len(attr(i, "t"))),
    ("conv-identity", "a dilated kernel", lambda i: max(attr(i, "d")) > 1 and max(attr(i, "k")) > 1),
    ("conv-merge-groups", "four groups", lambda i: grouped(i, "x", "w") == 4),
    ("matmul-fold", "weights", lambda i: any(n.op == "weight" for n in i.before.nodes)),
    ("mul-one", "a constant", lambda i: any(n.op == "fill" for n in i.before.nodes)),
    ("mul-one", "a constant that is a tensor", lambda i: len(shapes(i, "c")) > 1),
    ("poolavg-no-pads", "an activation", lambda i: attr(i, "f") == "tanh"),
]


@pytest.mark.parametrize(("name", "what", "has"), RARE, ids=[f"{n}: {w}" for n, w, _ in RARE])
def test_rare_instances_come_up(name: str, what: str, has: Callable[[Instance], bool]) -> None:
    assert any(has(i) for seed in range(3) for i in instances(name, seed)), what


def test_instances_differ() -> None:
    found = instances("conv-bias-relu")
    assert len({repr(i.assignment) for i in found}) == len(found) == 40
    assert len({tuple(t.shape for t in i.assignment.types.values()) for i in found}) > 30


def test_without_a_condition() -> None:
    """The instances are such as the rule itself does not have."""
    found = instances("conv-channels", without=(0,))
    assert len(found) == 40
    assert all(shapes(i, "x")[1] != shapes(i, "u")[1] for i in found)
    assert all(shapes(i, "x")[1] == shapes(i, "u")[1] for i in instances("conv-channels"))


def test_conditions_of_a_group_hold_for_each_member() -> None:
    for instance in instances("group-add"):
        assert all(
            shapes(instance, f"a[{k}]") == shapes(instance, f"b[{k}]") for k in range(instance.members)
        )


def test_a_condition_may_fail_for_one_member_alone() -> None:
    (odd,) = [
        i
        for i, c in enumerate(rule_named("group-conv-enlarge").conditions)
        if c.span.text == "dim(w[i], 2) % 2 == 1"
    ]
    found = instances("group-conv-enlarge", without=(odd,))
    even = [[shapes(i, f"w[{k}]")[2] % 2 == 0 for k in range(i.members)] for i in found]
    assert all(any(members) for members in even)
    assert any(sum(members) == 1 for members in even)


def test_the_same_every_time() -> None:
    code = (
        "from tests.verify.rules.test_instances import instances\n"
        "names = ('conv-groups', 'group-conv-enlarge', 'reshape-reshape', 'add-assoc')\n"
        "print([i.assignment for n in names for i in instances(n, 3, 12)])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert instances("conv-groups", 1) != instances("conv-groups", 2)


def test_many_sums_of_one_tensor(tmp_path: Path) -> None:
    """Two pads of six dimensions: the number of elements is a sum of 15,625 terms."""
    path = tmp_path / "pads.tsr"
    path.write_text(
        "rule pads { pad(pad(x; before = a, after = b); before = c, after = d) where rank(x) == 6 =>"
        " pad(x; before = [a[i] + c[i] for i in 0..6], after = [b[i] + d[i] for i in 0..6]) }"
    )
    program = load_program(str(path))
    (rule,) = (r for r in program.rules if r.name == "pads")
    found = list(Sampler(rule, Inference(program.ops), limit=WIDE_LIMIT).several(1, 40))
    assert found
    assert all(t.size <= WIDE_LIMIT for *_, instance in found for n in instance.before.nodes for t in n.types)
