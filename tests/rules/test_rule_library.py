"""Every rule of the library is proved for all sizes or listed, and each of its conditions is there for a reason."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tensat_dl import resources
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.loosened import loosened
from tensat_dl.verify.rules.prover import prover
from tensat_dl.verify.rules.shipped import of_library
from tensat_dl.verify.rules.verdict import Verdict

pytestmark = pytest.mark.sampled(20)

PACKS = sorted(p.stem for p in resources.rules().glob("*.tsr"))

#: Conditions without which a rule would be true as well, and what they are for. Of all others it is shown that the
#: rule without them is false.
SPARES_RANKS = (
    "a rule about three tensors is compiled for each assignment of ranks; unequal ones are seldom met"
)
SPARES_TRIVIAL = "types leave nothing to slice elsewhere"
SPARES_TWINS = "another rule does the same, and better"
SPARES_LENGTHS = "long concats of concats have more e-nodes, and no answer is cheaper"
SPARES_ROUNDS = "the rule would apply to its own result"
SPARES_ROW = "a single row waits for its weights wherever they stand"
SPARES_SMALL = "small weights are in a near cache, where it does not matter on which side they stand"
SPARES_TABLES = "a new table would be larger than what is looked up in it"
SPARES_STACKS = "heads are stacked along a new first axis"
SPARES_PARTS = "other slices are no parts of a packed projection"
SPARES_FILLS = "a mask fills in a number"
SPARES_GATES = "gates that scale rows are what it is for"
SPARES_SCALARS = "scalars move by other rules"
SPARES_WORK = "otherwise two products take longer than one"
PROVES = "a proof need not look at operands that broadcast"
OF_TABLES = (
    *("lookup-relu", "lookup-tanh", "lookup-sigmoid", "lookup-gelu", "lookup-gelu-tanh", "lookup-silu"),
    *("lookup-smul", "lookup-shift"),
)
#: Their instances are large, so there are fewer.
OF_LARGE_WEIGHTS = ("mirror-matmul", "mirror-matmul-bias", "matmul-as-conv", "matmul-bias-as-conv")
EXPLAINED = {
    **{("flatten-columns", c): SPARES_LENGTHS for c in ("k == rank(b) - 1", "len(a) > 3", "len(a) < 16")},
    ("concat-scaled", "k == rank(xs[0]) - 1"): SPARES_GATES,
    ("concat-scaled", "dim(xs[i], -1) > 1"): SPARES_GATES,
    ("concat-scaled", "rank(xs[i]) == rank(rs[i])"): SPARES_RANKS,
    ("stack-add", "shape(x[i]) == shape(x[0])"): SPARES_RANKS,
    ("stack-add", "shape(w[i]) == shape(x[0])"): SPARES_RANKS,
    ("concat-scaled-one", "k == rank(x) - 1"): SPARES_GATES,
    ("concat-scaled-one", "dim(x, k) > 1"): SPARES_GATES,
    ("concat-scaled-one", "rank(x) == rank(rs[i])"): SPARES_RANKS,
    ("concat-reshaped-columns", "k == len(s) - 1"): SPARES_GATES,
    ("concat-reshaped-columns", "shape(xs[i]) == shape(xs[0])"): SPARES_GATES,
    ("reshape-mul-column", "dim(r, -1) == 1"): SPARES_GATES,
    ("reshape-mul-column", "dim(x, -1) == s[-1]"): SPARES_GATES,
    ("reshape-mul-column", "dim(x, -1) > 1"): SPARES_GATES,
    ("reshape-mul-column", "shape(r)[0..len(s) - 1] == s[0..len(s) - 1]"): SPARES_GATES,
    ("reshape-mul-column", "rank(r) == len(s)"): SPARES_RANKS,
    ("matmul-scaled-bias", "dim(r, -1) == 1"): SPARES_GATES,
    ("matmul-scaled-bias", "rank(w) == 2"): SPARES_GATES,
    ("matmul-scaled-bias", "rank(r) == rank(x)"): SPARES_RANKS,
    ("matmul-scaled-term", "rank(s) == rank(b)"): SPARES_RANKS,
    ("matmul-narrow-terms", "dim(a, 0) < 64"): SPARES_GATES,
    ("matmul-narrow-terms", "dim(b, 0) < 64"): SPARES_GATES,
    ("factor-weight", "rank(b) == rank(c)"): SPARES_RANKS,
    ("group-mul-shared", "rank(w[0]) > 0"): SPARES_SCALARS,
    ("mul-parameters", "rank(a) > 0"): SPARES_SCALARS,
    ("mul-parameters", "rank(b) > 0"): SPARES_SCALARS,
    ("smul-smul", "rank(x) > 0"): SPARES_SCALARS,
    ("smul-mul", "rank(x) > 0"): SPARES_SCALARS,
    ("smul-mul", "rank(y) > 0"): SPARES_SCALARS,
    ("smul-of-small-summand", "prod(shape(y)) < prod(shape(x))"): SPARES_WORK,
    **{
        (f"lstm-peepholes{name}", c): PROVES
        for name in ("", "-forget-first")
        for c in ("rank(p) == 1", "rank(q) == 1", "dim(x, 0) == dim(c, 0)", "shape(t) == shape(c)")
    },
    ("shift-scalar", "rank(w) > 0"): SPARES_ROUNDS,
    ("scale-scalar", "rank(w) > 0"): SPARES_ROUNDS,
    ("row-ewadd", "rank(w) > 1"): SPARES_ROUNDS,
    ("row-ewmul", "rank(w) > 1"): SPARES_ROUNDS,
    ("row-prelu", "rank(w) > 1"): SPARES_ROUNDS,
    ("reshape-row-ewadd", "rank(w) <= 2"): SPARES_RANKS,
    ("reshape-row-ewmul", "rank(w) <= 2"): SPARES_RANKS,
    ("div-parameter", "rank(w) > 0"): SPARES_TWINS,  # div-scalar
    ("matmul-bias-scalar", "rank(s) == 0"): SPARES_TWINS,  # matmul-bias
    ("conv-after-siblings", "dim(x, 1) > dim(u, 1)"): SPARES_TWINS,  # conv-channels
    ("group-conv-input-grouped", "dim(x, 1) > dim(w[0], 1)"): SPARES_TWINS,  # group-conv-input
    ("sink-slice-channels", "axis = 1"): SPARES_TRIVIAL,
    ("means-later-first", "i < j"): SPARES_ROUNDS,
    ("mean-product", "c != 0.0"): "no number is a quotient by zero",
    ("mean-product", "is_float(t)"): "1 / c is an integer for 1 and -1 alone, and then it is true",
    **{
        (f"{name}-factor", "rank(x) == rank(y)"): SPARES_RANKS
        for name in ("silu-before", "silu-around", "gelu-before", "gelu-tanh-before")
    },
    ("gelu-before-factor", "rank(s) == 0"): SPARES_RANKS,
    ("gelu-tanh-before-factor", "rank(s) == 0"): SPARES_RANKS,
    ("gelu-tanh-before-factor", "rank(x) == rank(u)"): SPARES_RANKS,
    ("normalisation-parts", "rank(x) == rank(u)"): SPARES_RANKS,
    ("normalisation-parts", "rank(x) == rank(r)"): SPARES_RANKS,
    ("transpose-concat-channels", "len(xs) > 2"): SPARES_TWINS,  # transpose-concat-1
    ("batchnorm-of-transpose", "e != 0.0"): "`batchnorm-affine` would undo the rule, again and again",
    ("batchnorm-of-reshape", "e != 0.0"): "`batchnorm-affine` would undo the rule, again and again",
    ("transpose-concat-channels", "perm = [0, 2, 3, 1]"): "images seldom have other layouts",
    ("channels-last-mean-rows", "perm = [0, 2, 3, 1]"): "images seldom have other layouts",
    ("channels-last-mean-columns", "perm = [0, 2, 3, 1]"): "images seldom have other layouts",
    ("pair-conv-enlarge", "dim(u, 2) < dim(v, 2) or dim(u, 3) < dim(v, 3)"): SPARES_TWINS,  # pair-conv-input
    ("div-scalar", "rank(x) > 0"): "a quotient of scalars is computed as it stands",
    ("gelu-tanh-cube", "value = 0.044715"): "other polynomials are no parts of an activation",
    ("flatten-first", "len(a) <= 3"): SPARES_LENGTHS,
    ("flatten-last", "len(b) <= 3"): SPARES_LENGTHS,
    ("fold-quotient", "b != 0.0"): "no number is a quotient by zero",
    ("add-quotients", "rank(a) == rank(b)"): SPARES_RANKS,
    ("factor", "rank(b) == rank(c)"): SPARES_RANKS,
    ("interpolate", "rank(one) == 0"): SPARES_RANKS,
    **{
        (name, f"rank(x) == rank({other})"): SPARES_RANKS
        for name in ("interpolate", "interpolate-difference", "interpolate-sum")
        for other in "yt"
    },
    ("mul-small", "shape(a) == shape(b)"): SPARES_RANKS,
    ("mul-small", "prod(shape(a)) < prod(shape(x))"): "otherwise the other product is as large",
    ("matmul-scaled-terms", "rank(r) == rank(a)"): SPARES_RANKS,
    ("matmul-scaled-terms", "rank(s) == rank(b)"): SPARES_RANKS,
    ("factor-difference", "rank(b) == rank(c)"): SPARES_RANKS,
    ("reshape-add", "rank(x) == rank(y)"): SPARES_RANKS,
    ("reshape-mul", "rank(x) == rank(y)"): SPARES_RANKS,
    ("reshape-add-other", "s == shape(y)"): SPARES_RANKS,
    **{(f"reshape-{f}", "shape(x) == shape(y)"): SPARES_RANKS for f in ("ewsub", "ewdiv", "ewmax", "ewmin")},
    **{(name, "dim(x, 0) > 1"): SPARES_ROW for name in OF_LARGE_WEIGHTS},
    **{(name, f"dim(w, {i}) >= 128"): SPARES_SMALL for name in OF_LARGE_WEIGHTS for i in (0, 1)},
    ("cast-wide", "is_float(dtype(x))"): "f64 rounds large integers, and floats stand for real numbers here",
    **{(name, "dim(w, k) <= prod(shape(i))"): SPARES_TABLES for name in OF_TABLES},
    **{
        (f"lookup-{name}", "dim(w, 0) <= prod(shape(i))"): SPARES_TABLES
        for name in ("shift-row", "scale-row", "matmul")
    },
    ("group-add-shared", "rank(w[0]) <= rank(x)"): "a weight of higher rank is not a bias: no graph profits",
    ("group-mul-shared", "rank(w[0]) <= rank(x)"): "a weight of higher rank is not a scale: no graph profits",
    ("stack-matmul", "axis = 0"): SPARES_STACKS,
    ("stack-matmul-transposed", "axis = 0"): SPARES_STACKS,
    ("stack-smul", "axis = 0"): SPARES_STACKS,
    ("stack-mask", "axis = 0"): SPARES_STACKS,
    ("stack-add", "axis = 0"): SPARES_STACKS,
    ("concat-reshaped-slices", "axis = 0"): SPARES_STACKS,
    ("slice-transpose", "axis = 0"): SPARES_PARTS,
    ("slice-transpose-2", "axis = 0"): SPARES_PARTS,
    ("expand-rank", "rank(x) < len(s)"): SPARES_ROUNDS,
    ("matmul-repeated", "dim(y, -3) == 1"): "only repetitions before the rows are left out of a product",
    ("matmul-rows-transposed", "p[-3] > p[-2]"): SPARES_ROUNDS,
    ("transpose-unit", "rank(x) == 4"): SPARES_RANKS,
    ("transpose-unit", "p[0] > 0"): "a dimension that stays in front is in nobody's way",
    ("mask-rank", "rank(y) > 2"): SPARES_ROUNDS,
    ("mask-rank", "dim(x, -3) > 1"): "a single matrix needs no broadcasting",
    ("select-rank", "dim(x, -3) > 1"): "a single matrix needs no broadcasting",
    ("select-rank", "rank(c) > 2"): SPARES_ROUNDS,
    **{(name, "rank(v) == 0"): SPARES_FILLS for name in ("select-rank", "mask-reversed", "smul-select")},
    ("reshape-mask-heads", "rank(y) == 3"): SPARES_TWINS,  # reshape-mask
    ("mask-heads-rank", "rank(y) == 4"): SPARES_TWINS,  # mask-rank
    ("mask-heads-rank", "dim(y, -3) > 1"): SPARES_TWINS,  # mask-rank
    ("matmul-rows-transposed", "p[..-3] == [i for i in 0..len(p) - 3]"): SPARES_ROUNDS,
    ("matmul-rows-transposed", "dim(x, p[-3]) > 1"): SPARES_ROUNDS,
    ("matmul-rows-transposed", "dim(x, p[-2]) > 1"): SPARES_ROUNDS,
    ("slice-packed", "dim(w, 1) > dim(w, 0)"): SPARES_PARTS,
    ("slice-packed", "8 * (n - m) >= dim(w, 1)"): SPARES_PARTS,
    ("slice-packed", "axis = 1"): SPARES_PARTS,
    ("slice-packed-bias", "dim(w, 1) > dim(w, 0)"): SPARES_PARTS,
    ("slice-packed-bias", "8 * (n - m) >= dim(w, 1)"): SPARES_PARTS,
    **{
        (f"conv-{name}", "dim(w, 0) == dim(x, 1)"): PROVES
        for name in ("copy-branch", "copy-branch-bias", "batchnorm-branch", "batchnorm-branch-bias")
    },
    ("slice-packed", "rank(x) == 2"): PROVES,
    ("slice-packed-bias", "rank(x) == 2"): PROVES,
    ("rotate-projection-bias", "rank(w) == 2"): PROVES,
    ("xla-mul-scaled", "rank(a) == 0"): SPARES_RANKS,
    ("xla-mul-scaled", "rank(b) == 0"): SPARES_RANKS,
    ("xla-mul-broadcast", "rank(c) == 0"): SPARES_RANKS,
    ("xla-div-quotients", "shape(a) == shape(b)"): SPARES_RANKS,
    ("xla-div-quotients", "shape(c) == shape(d)"): SPARES_RANKS,
    ("xla-dynamic-slice-iota", "axis = 0"): "the places of one axis are a list",
    ("xla-mul-sums", "dim(x, k) == 1"): PROVES,
    ("xla-mul-sums", "dim(y, j) == 1"): PROVES,
    ("xla-add-update", "set(shape(y), k, 1) == set(shape(x), k, 1)"): PROVES,
    ("xla-update-twice", "set(shape(y), k, 1) == set(shape(x), k, 1)"): PROVES,
    ("xla-update-twice", "rank(i) == 0"): SPARES_RANKS,
    ("xla-update-twice", "rank(j) == 0"): SPARES_RANKS,
    **{
        (f"xla-{name}-self", "not is_float(dtype(x))"): "a float may be NaN"
        for name in ("equal", "not-equal", "greater-equal")
    },
}


@cache
def pack(name: str) -> Program:
    return load_program(str(resources.rules() / f"{name}.tsr"))


@cache
def examiner() -> Examiner:
    return Examiner(pack("ops").ops, proofs=bool(prover()))


def own_rules(name: str) -> list[RewriteRule]:
    rules = pack(name).rules
    return [r for r in rules if r.name.removesuffix("-back") in pack(name).own_rules]


RULES = [r for name in PACKS for r in own_rules(name)]
#: What the library's operators are composed of.
COMPOSITIONS = pack("ops").rules


@cache
def document() -> str:
    return (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")


@cache
def without_proof() -> frozenset[str]:
    """The rules that docs/rules.md lists as such."""
    section = document().partition("## Rules without a proof\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return frozenset(name for row in rows for name in re.findall(r"`([^`]*)`", row))


@cache
def verdict(rule: RewriteRule) -> Verdict:
    """The verdict on a rule; a second one if z3 ran out of time, as it seldom does on a busy machine."""
    found = examiner().verdict(rule)
    known = of_library(rule, examiner().ops)
    lost = known is not None and (known.status, found.status) == ("proved", "tested")
    return examiner().verdict(rule) if lost else found


def told(found: Verdict | None) -> object:
    """What a verdict says, without examples and reasons, which may differ by machine."""
    return found and (
        found.status,
        found.instances,
        found.rounding,
        {u.split("`")[1] for u in found.unneeded},
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_rule_is_true_and_its_conditions_matter(rule: RewriteRule) -> None:
    found = verdict(rule)
    assert found.status == ("tested" if rule.name in without_proof() or not prover() else "proved")
    few = {"smul-scalars": 3} | dict.fromkeys(
        OF_LARGE_WEIGHTS, 5
    )  # scalars differ in their element type alone
    assert found.instances >= few.get(rule.name, 12)
    explained = {c for name, c in EXPLAINED if name == rule.name.removesuffix("-back")}
    assert {text.split("`")[1] for text in found.unneeded} == explained
    if prover():
        assert told(of_library(rule, examiner().ops)) == told(found)


@pytest.mark.skipif(not prover(), reason="proofs need z3")
@pytest.mark.parametrize("rule", COMPOSITIONS, ids=lambda r: r.name)
def test_compositions_have_the_verdicts_that_come_with_them(rule: RewriteRule) -> None:
    assert told(of_library(rule, examiner().ops)) == told(verdict(rule))


def test_what_is_explained_exists() -> None:
    conditions = {(r.name, " ".join(c.span.text.split())) for r in RULES for c in r.conditions}
    literals = {(r.name, text) for r in RULES for text, _ in loosened(r, examiner().ops)}
    assert conditions | literals >= EXPLAINED.keys()


def test_there_are_verdicts_on_the_rules_of_the_library_alone() -> None:
    text = (resources.rules() / "verdicts.json").read_text(encoding="utf-8")
    assert json.loads(text).keys() == {r.name for r in (*RULES, *COMPOSITIONS)}


def test_every_rule_states_its_algebra() -> None:
    without: list[RewriteRule] = [r for r in RULES if not r.doc]
    assert not without


def test_packs_are_documented() -> None:
    missing = [p for p in PACKS if p != "ops" and f"`{p}`" not in document()]
    assert not missing


def test_proofs_are_documented() -> None:
    rules = {r.name for r in RULES}
    assert without_proof() <= rules
    without = sum(r.name in without_proof() for r in RULES)
    assert (
        f"proves](verification.md#proofs-for-all-sizes) {len(RULES) - without} of the library's {len(RULES)}"
        in document()
    )
    assert f"The other {without} are `tested`" in document()
    assert not any(
        name.startswith("xla-") for name in without_proof()
    )  # docs/xla.md says that all are proved
