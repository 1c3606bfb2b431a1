"""Every rule of the library is true on random instances, and its conditions are there for a reason."""

from __future__ import annotations

import pytest
from rule_instances import agree, instances, library

from tensat_dl import resources
from tensat_dl.ir.rule import RewriteRule

#: Rules of which random draws meet the conditions seldom: how many instances are enough.
RARE = {"pair-conv-enlarge": 4, "conv-identity": 6, "conv-after-siblings": 6}
ENOUGH = 10

RULES = {r.name: r for r in library().rules if not r.name.startswith(("fuse-", "unfuse-"))}

#: Shapes under which a sum of a grouped and a plain convolution is well-typed after merging.
_MIXED = {"x": (1, 3, 2, 2), "u": (6, 1, 1, 1), "y": (1, 1, 2, 2), "v": (6, 1, 1, 1)}
_MIXED_BACK = {"x": (1, 1, 2, 2), "u": (6, 1, 1, 1), "y": (1, 3, 2, 2), "v": (6, 1, 1, 1)}
SHAPES = {
    ("conv-sum", "dim(x, 1) == dim(u, 1)"): _MIXED,
    ("conv-sum", "dim(y, 1) == dim(v, 1)"): _MIXED_BACK,
}
#: (rule, the condition): without it the rule is false.
NECESSARY = [
    ("concat-exchange", "j != k"),
    ("conv-distribute-inputs", "shape(x) == shape(y)"),
    ("conv-distribute-kernels", "shape(u) == shape(v)"),
    ("conv-sum", "dim(x, 1) == dim(u, 1)"),
    ("conv-sum", "dim(y, 1) == dim(v, 1)"),
    ("conv-channels", "dim(x, 1) == dim(u, 1)"),
    ("conv-groups", "dim(u, 0) * dim(y, 1) == dim(v, 0) * dim(x, 1)"),
    ("conv-then-1x1", "dim(x, 1) == dim(u, 1)"),
    ("expand-conv-channels", "dim(x, 1) == dim(u, 1)"),
    ("sink-slice-channels", "dim(x, 1) == dim(w, 1)"),
    ("pair-conv-input", "dim(x, 1) == dim(u, 1)"),
    ("pair-conv-enlarge", "q[0] == p[0] + (dim(v, 2) - dim(u, 2)) / 2"),
    ("group-conv-input", "dim(x, 1) == dim(w[0], 1)"),
    ("group-conv-enlarge", "dim(w[i], 2) % 2 == 1"),
    ("concat-poolmax", "k < 2"),
    ("poolavg-then-1x1", "dim(w, 2) == 1"),
    ("slice-add", "rank(x) == rank(y)"),
    ("div-scalar", "is_float(dtype(x))"),
    ("conv-factor-inputs-biases", "shape(x) == shape(y)"),
    ("conv-factor-kernels-biases", "shape(u) == shape(v)"),
    ("batchnorm-matmul", "rank(w) == 2"),
    ("batchnorm-matmul-bias", "rank(w) == 2"),
    ("conv-factor-difference-inputs", "shape(x) == shape(y)"),
    ("conv-factor-difference-kernels", "shape(u) == shape(v)"),
]


@pytest.mark.parametrize("name", RULES)
def test_rule_is_true(name: str) -> None:
    rule = RULES[name]
    found = instances(rule, library().ops, 0, ENOUGH, 4000)
    assert len(found) >= RARE.get(name, ENOUGH), f"only {len(found)} instances found"
    for seed, instance in enumerate(found):
        assert agree(instance, seed), f"{name} is false:\n{instance}"


@pytest.mark.parametrize(("name", "condition"), NECESSARY)
def test_condition_is_necessary(name: str, condition: str) -> None:
    rule = RULES[name]
    number = [c.span.text for c in rule.conditions].index(condition)
    shapes = SHAPES.get((name, condition))
    for seed in range(60):
        drawn = instances(rule, library().ops, seed, 10, 200, without=number, shapes=shapes)
        for i, instance in enumerate(drawn):
            if not agree(instance, i):
                return
    pytest.fail(f"{name} seems true without `{condition}`")


def _packs() -> list[str]:
    return sorted(p.stem for p in resources.rules().glob("*.tsr") if p.stem != "ops")


def test_every_rule_states_its_algebra() -> None:
    without: list[RewriteRule] = [r for r in RULES.values() if not r.doc]
    assert not without


def test_packs_are_documented() -> None:
    text = (resources.rules().parent / "docs" / "rules.md").read_text(encoding="utf-8")
    missing = [p for p in _packs() if f"`{p}`" not in text]
    assert not missing
