"""Rules are proved for all sizes, or not; no rule that is false over the real numbers is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tensat_dl import resources
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.symbolic.proof import Unproved, prove_sizes

pytest.importorskip("z3")

RULES = Path(__file__).parents[1] / "rules"
FALSE = Path(__file__).parent / "false"
#: False for integers alone.
TRUE_OF_REALS = {"integer-quotients", "integer-means", "cast-div", "int-div-mul"}


@cache
def program(path: str) -> Program:
    return load_program(path)


def own(path: str) -> list[RewriteRule]:
    found = program(path)
    return [r for r in found.rules if r.declared in found.own_rules]


def of(tmp_path: Path, text: str) -> RewriteRule:
    path = tmp_path / "rules.tsr"
    path.write_text(text, encoding="utf-8")
    return own(str(path))[0]


def pack(rule: str) -> str:
    return "sums" if rule in ("matmul-sum", "conv-sum", "distribute") else "inference"


def proved(rule: RewriteRule, path: str) -> str:
    """What a rule is proved for, or "no" and why not."""
    try:
        return str(prove_sizes(rule, Inference(program(path).ops)))
    except Unproved as e:
        return f"no: {e}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("file", "rule"),
    [
        (f, r)
        for f in ("false_rules.tsr", "false_operators.tsr", "false_values.tsr", "false_at_zero.tsr")
        for r in own(str(RULES / f))
    ],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_false_rule_is_not_proved(file: str, rule: RewriteRule) -> None:
    if rule.declared not in TRUE_OF_REALS:
        assert proved(rule, str(RULES / file)).startswith("no: ")


@pytest.mark.parametrize(
    ("path", "rule"),
    [(path, r) for path in sorted(map(str, FALSE.glob("*.tsr"))) for r in own(path)],
    ids=lambda x: "" if isinstance(x, str) else x.name,
)
def test_a_rule_that_is_false_far_from_what_is_drawn_is_not_proved(path: str, rule: RewriteRule) -> None:
    """Each is true of small instances, and has a step that a proof may not take."""
    assert proved(rule, path).startswith("no: ")


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        ("matmul-assoc", "ranks 2 to 6"),
        ("matmul-sum", "ranks 2 to 6"),
        ("conv-channels", "rank 4"),
        ("conv-sum", "rank 4"),
        ("concat-slices", "ranks 1 to 6, any number of tensors"),
        ("concat-tanh", "ranks 1 to 6, any number of tensors"),
        ("group-matmul-left", "ranks 2 to 6, any number of tensors"),
        ("group-add-shared", "ranks 0 to 6, any number of tensors"),
        ("group-conv-input-bias", "ranks 1 to 4, any number of tensors"),
        ("slice-last", "ranks 1 to 6, any number of tensors"),
        ("stack-heads", "ranks 2 to 6, any number of tensors"),
        ("lookup-relu", "ranks 0 to 6"),
        ("one-hot-matmul-bias", "ranks 1 to 6"),
        ("cast-wide", "ranks 0 to 6"),
        ("resize-1x1", "rank 4"),
        ("upsample-1x1", "rank 4"),
        ("pad-nothing", "ranks 0 to 6"),
        ("slice-slice", "ranks 1 to 6"),
        ("reshape-reshape", "ranks 0 to 6"),
        ("transpose-transpose", "ranks 0 to 6"),
        ("transpose-add", "ranks 0 to 6"),
        ("softmax-parts", "ranks 1 to 6"),
        ("poolavg-sigmoid", "rank 4"),
        ("poolmax-of-relu", "rank 4"),
        ("conv-identity", "rank 4"),
        ("conv-merge-groups", "rank 4"),
        ("conv-batchnorm", "ranks 1 to 4"),
        ("pad-conv", "rank 4"),
        ("hardswish-quotient", "any rank"),
        ("rmsnorm-of-sum", "ranks 1 to 6"),
        ("instancenorm-parts", "rank 4"),
        ("batchnorm-affine", "ranks 3 to 4"),
        ("conv-of-scaled", "ranks 3 to 4"),
        ("reshape-add", "ranks 0 to 6"),
        ("reshape-shift", "ranks 0 to 6"),
        ("distribute", "any rank"),
    ],
)
def test_rules_of_the_library(rule: str, sizes: str) -> None:
    path = str(resources.rules() / f"{pack(rule)}.tsr")
    found = next(r for r in program(path).rules if r.name == rule)
    assert proved(found, path) == f"all sizes, {sizes}"


@pytest.mark.parametrize(
    "text",
    [
        "rule r { ewadd(x, c) where value(c) >= 0.0, value(c) < 0.001 => x }",
        "rule r { tanh(smul(x, c)) where value(c) < 0.01, value(c) > -0.01 => smul(x, c) }",
        "rule r { reduce_sum(slice(x; axis = k, start = 0, stop = min(dim(x, k), 512)); axis = k)"
        " => reduce_sum(x; axis = k) }",
        "rule r { ewmul(ewmul(x, 2147483647.0), 2147483629.0) where is_float(dtype(x)) => ewmul(x, 0.0) }",
        "rule r { slice(x; axis = 0, start = a, stop = b) where a < 100"
        " => slice(x; axis = 0, start = 0, stop = b - a) }",
        "rule r { concat(conv2d(x, u), conv2d(x, v); axis = 1) => conv2d(x, concat(u, v; axis = 0)) }",
        "rule r { matmul(matmul(a, b; act = f), c) => matmul(a, matmul(b, c)) }",
        "rule r { transpose(transpose(x; perm = p); perm = q)"
        " => transpose(x; perm = [q[p[i]] for i in 0..rank(x)]) }",
        "rule r { relu(smul(x, c)) => smul(relu(x), c) }",
        "rule r { reduce_mean(concat(x, y; axis = k); axis = k)"
        " => smul(ewadd(reduce_mean(x; axis = k), reduce_mean(y; axis = k)), 0.5) }",
        "rule r { softmax(ewadd(x, y); axis = k) => softmax(x; axis = k) }",
        "rule r { reshape(transpose(x; perm = p); shape = s) => reshape(x; shape = s) }",
        "rule r { cast(cast(x; to = i8); to = t) => cast(x; to = t) }",
        "rule r { cast(cast(x; to = t); to = dtype(x)) where t != bool => x }",
        "rule r { gather(concat(x, y; axis = 0), i; axis = 0) => gather(x, i; axis = 0) }",
        "rule r { gather(slice(x; axis = 0, start = 0, stop = n), i; axis = 0) => gather(x, i; axis = 0) }",
        "rule r { resize(ewmul(x, x); size = n, mode = m, coordinates = c, rounding = r)"
        " => ewmul(resize(x; size = n, mode = m, coordinates = c, rounding = r),"
        " resize(x; size = n, mode = m, coordinates = c, rounding = r)) }",
        "rule r { pad(x; before = b, after = e, mode = reflect) => pad(x; before = b, after = e, mode = edge) }",
        # a proof for tensors without dimensions is none for others
        "rule r { power(x; exponent = p) where prod(shape(x)) > 1000 or p == 1.0 => x }",
        "rule r { power(x; exponent = p) where any(dim(x, i) > 500 for i in 0..rank(x)) or p == 1.0 => x }",
        "rule r { elu(x; alpha = a) where max(1, 1) < prod(shape(x)) / 1000 or a == 0.0 => relu(x) }",
        # remainders by negative numbers are negative
        "op f(x: tensor; k: int) = slice(x; axis = 0, start = 8 + 50 % k, stop = 9 + 50 % k)\n"
        "op g(x: tensor; k: int) = slice(x; axis = 0, start = 8 + max(50 % k, 0), stop = 9 + max(50 % k, 0))\n"
        "rule r { f(x; k = k) where k < 0 => g(x; k = k) }",
        # places up to a number, below an operator that stretches its operands
        "rule r { gather(ewadd(a, b), ewmin(iota(; shape = s, axis = 0, dtype = i64), c); axis = 0)"
        " where rank(a) == 1, rank(b) == 1, value(c) == 1000000.0, rank(c) == 0, broadcast(shape(a), shape(b)) == s"
        " => ewadd(a, b) }",
        "rule r { ewadd(a, b) where rank(a) == 1, rank(b) == 1 => gather(ewadd(a, b),"
        " ewmin(iota(; shape = broadcast(shape(a), shape(b)), axis = 0, dtype = i64),"
        " slice(iota(; shape = [307], axis = 0, dtype = i64); axis = 0, start = 306, stop = 307)); axis = 0) }",
        # the least of 0 and a place that may be negative
        "rule r { ewsub(x, x) where rank(x) == 1, dtype(x) == i64 =>"
        " ewmin(ewsub(iota(; shape = [dim(x, 0)], axis = 0, dtype = i64),"
        " slice(iota(; shape = [max(dim(x, 0) / 300 - 1, 0) + 1], axis = 0, dtype = i64); axis = 0,"
        " start = max(dim(x, 0) / 300 - 1, 0), stop = max(dim(x, 0) / 300 - 1, 0) + 1)), 0.0) }",
        # compositions whose numbers depend on ranks
        "op f(x: tensor, y: tensor) = ewmul(ewmul(x, y), fill(; value = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0][rank(x)]"
        " * [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0][rank(y)], dtype = dtype(x), shape = []))\n"
        "rule r { f(x, y) => ewmul(f(x, y), 0.0) }",
        "op f(x: tensor, y: tensor, z: tensor) = ewmul(ewmul(x, y), ewmul(z, fill(; value ="
        " [0.0, 1.0][(rank(x) + rank(y) + rank(z)) / 18], dtype = dtype(x), shape = [])))\n"
        "op g(x: tensor, y: tensor, z: tensor) = f(relu(x), y, z)\n"
        "rule r { g(x, y, z) => ewmul(g(x, y, z), 0.0) }",
    ],
)
def test_false_for_some_sizes_or_values(tmp_path: Path, text: str) -> None:
    rule = of(tmp_path, text)
    assert proved(rule, str(tmp_path / "rules.tsr")).startswith("no: ")


@pytest.mark.parametrize(
    "text",
    [
        "rule r { ewadd(x, c) where value(c) == 0.0 => x }",
        "rule r { relu(smul(x, c)) where value(c) == 2.0 => smul(relu(x), c) }",
        "rule r { reduce_mean(concat(x, y; axis = k); axis = k) where dim(x, k) == dim(y, k)"
        " => smul(ewadd(reduce_mean(x; axis = k), reduce_mean(y; axis = k)), 0.5) }",
        "rule r { z = softmax(ewadd(x, y); axis = k) where dim(y, k) == 1, rank(y) == rank(x), shape(z) == shape(x)"
        " => z = softmax(x; axis = k) }",
        "rule r { reduce_sum(matmul(x, y); axis = 0) where rank(x) == 2 => matmul(reduce_sum(x; axis = 0), y) }",
        "rule r { exp(ewadd(x, y)) => ewmul(exp(x), exp(y)) }",
        "rule r { sigmoid(x) => ewdiv(exp(x), ewadd(exp(x), 1.0)) }",
        # powers that may be 0 lose what they need in the same way, others do not lose it
        "rule r { transpose(power(sqrt(x); exponent = e); perm = p) =>"
        " power(sqrt(transpose(x; perm = p)); exponent = e) }",
        "rule r { power(sqrt(x); exponent = e) where e != 0.0 =>"
        " power(sqrt(x); exponent = e) + sqrt(x) - sqrt(x) }",
        # what may be infinite is made a number of in the same way
        "rule r { z * tanh(x / relu(y)) where shape(x) == shape(y) => tanh(x / relu(y)) * z }",
        "rule r { z * reduce_max(softmax(x / relu(y); axis = 0); axis = 0) where rank(x) == 1, shape(x) == shape(y)"
        " => reduce_max(softmax(x / relu(y); axis = 0); axis = 0) * z }",
        # roots and divisors of a part are those of the same part
        "rule r { log(concat(x, y; axis = k)) => concat(log(x), log(y); axis = k) }",
        "rule r { transpose(select(c, log(x), y); perm = p) where rank(c) == rank(x), rank(x) == rank(y)"
        " => select(transpose(c; perm = p), log(transpose(x; perm = p)), transpose(y; perm = p)) }",
        "rule r { pad(x / y; before = b, after = a) where shape(x) == shape(y) =>"
        " z = pad(y; before = b, after = a, value = 1.0)\n pad(x; before = b, after = a) / z }",
        # of integers, too
        "rule r { transpose(x / y; perm = p) where rank(x) == rank(y)"
        " => transpose(x; perm = p) / transpose(y; perm = p) }",
        "rule r { concat(relu(x), relu(y); axis = 0) where dim(x, 0) != inf => relu(concat(x, y; axis = 0)) }",
        "rule r { exp(x) => exp(x) + select(greater(x - x, 1.0), power(x - x; exponent = -1.5), x * 0.0) }",
        "rule r { concat(softmax(xs[i]; axis = a[i]) for i in 0..len(xs); axis = 0) where a[i] == a[0], a[0] != 0"
        " => softmax(concat(xs[..]; axis = 0); axis = a[0]) }",
        "rule r { concat(reshape(xs[i]; shape = [1, dim(xs[i], 0)]) for i in 0..len(xs); axis = 1)"
        " where rank(xs[i]) == 1 => z = concat(xs[..]; axis = 0)\n reshape(z; shape = [1, dim(z, 0)]) }",
        # what is at most 1 is 1
        "rule r { reduce_max(x; axis = 0) where dim(x, 0) < 2 => x }",
        "rule r { reduce_mean(x; axis = 0) where dim(x, 0) * dim(x, 1) <= 1 => x }",
        # divisors that are no 0, though roots and magnitudes are in them
        "rule r { ewadd(ewdiv(x, ewadd(sqrt(y), 1.0)), z) where shape(x) == shape(y), shape(y) == shape(z)"
        " => ewdiv(ewadd(x, ewmul(z, ewadd(sqrt(y), 1.0))), ewadd(sqrt(y), 1.0)) }",
    ],
)
def test_true_for_all_sizes(tmp_path: Path, text: str) -> None:
    rule = of(tmp_path, text)
    assert proved(rule, str(tmp_path / "rules.tsr")).startswith("all sizes, ")


PLACE = """op place(; n: int) = slice(
  iota(; shape = [n + 1], axis = 0, dtype = i64); axis = 0, start = n, stop = n + 1
)
"""
LAST = """op last(x: tensor) = cast(
  slice(iota(; shape = [dim(x, 0)], axis = 0, dtype = i64); axis = 0, start = dim(x, 0) - 1, stop = dim(x, 0));
  to = dtype(x)
)
op m(x: tensor, a: tensor, b: tensor) = ewmax(last(x) * a, last(x) * b)
"""


@pytest.mark.parametrize(
    "text",
    [
        PLACE + "op g(x: tensor; k: int) = ewmul(x, cast(place(; n = max(k, 0)); to = dtype(x)))\n"
        "rule r { relu(g(x; k = k)) where rank(x) == 1, k == 3.5 or k < 5 => g(relu(x); k = k) }",
        LAST
        + "rule r { log(exp(x + y)) * m(x, a, b) where rank(x) == 1, rank(y) == 1, rank(a) == 0, rank(b) == 0,"
        " dtype(x) == f32 => (x + y) * m(x, a, b) }",
    ],
    ids=("integer-and-half", "greatest-of-zeros"),
)
def test_a_true_rule_that_ended_the_checker(tmp_path: Path, text: str) -> None:
    rule = of(tmp_path, text)
    ops = program(str(tmp_path / "rules.tsr")).ops
    assert Examiner(ops, proofs=True, thorough=False).verdict(rule).status in ("proved", "tested")


def test_a_stride_with_a_square_is_divided(tmp_path: Path) -> None:
    """The strides of blocks are multiples of the block's square: a quotient by 0 ended `check`."""
    text = """rule blocks {
      depth_to_space(transpose(x; perm = p); block = o) where p[-1] == len(p) - 1
      => transpose(depth_to_space(x; block = o); perm = p)
    }"""
    rule = of(tmp_path, text)
    assert proved(rule, str(tmp_path / "rules.tsr")) == "all sizes, rank 4"


def test_a_rule_without_variables_or_shapes(tmp_path: Path) -> None:
    rule = of(
        tmp_path, "rule r { eye(; n = n, dtype = t) => transpose(eye(; n = n, dtype = t); perm = [1, 0]) }"
    )
    assert proved(rule, str(tmp_path / "rules.tsr")) == "all sizes, rank 2"


def test_operators_within_one_another_beyond_what_python_can_follow(tmp_path: Path) -> None:
    steps = "\n".join(f"a{i + 1} = relu(a{i})" for i in range(400))
    rule = of(tmp_path, f"rule r {{\ntanh(relu(x))\n=>\na0 = relu(x)\n{steps}\ntanh(a400)\n}}")
    found = proved(rule, str(tmp_path / "rules.tsr"))
    assert found.startswith("no: it has too many operators that take one another's results")


def test_an_index_with_too_many_terms(tmp_path: Path) -> None:
    """The index of a padded mean at rank 6 had 36,985 terms, and the next one took all memory there is."""
    rule = of(
        tmp_path,
        """rule pads {
          instancenorm(pad(x; before = b, after = a), pad(y; before = b, after = a), pad(z; before = b, after = a))
          => pad(instancenorm(x, y, z); before = b, after = a)
        }""",
    )
    assert proved(rule, str(tmp_path / "rules.tsr")).startswith("no: an index with more than 1,000 terms")


def test_a_proof_does_not_depend_on_earlier_ones() -> None:
    path = str(resources.rules() / "matmul.tsr")
    rules = own(path)
    assert [proved(r, path) for r in rules] == [proved(r, path) for r in reversed(rules)][::-1]


@pytest.mark.parametrize(
    "text",
    [
        # the parts of the first four members, over and over
        "rule r { each i: y[i] = matmul(x, w[i]) where rank(x) == 2, dim(w[i], 1) == dim(w[0], 1) =>"
        " m = matmul(x, concat(w[..]; axis = 1));"
        " each i: y[i] = slice(m; axis = 1, start = i % 4 * dim(w[0], 1), stop = (i % 4 + 1) * dim(w[0], 1)) }",
        # the first part for each
        "rule r { each i: y[i] = matmul(x, w[i]) where rank(x) == 2, dim(w[i], 1) == dim(w[0], 1) =>"
        " m = matmul(x, concat(w[..]; axis = 1));"
        " each i: y[i] = slice(m; axis = 1, start = 0, stop = dim(w[i], 1)) }",
        # as if all members had the first one's size
        "rule r { each i: y[i] = matmul(x, w[i]) where rank(x) == 2 =>"
        " m = matmul(x, concat(w[..]; axis = 1));"
        " each i: y[i] = slice(m; axis = 1, start = i * dim(w[0], 1), stop = i * dim(w[0], 1) + dim(w[i], 1)) }",
        "rule r { concat(relu(xs[i]) for i in 0..len(xs); axis = k) => tanh(concat(xs[..]; axis = k)) }",
        # slices of three elements, wherever they begin
        "rule r { concat(slice(x; axis = k, start = a[i], stop = b[i]) for i in 0..len(a); axis = k)"
        " where all(b[i] == a[i] + 3 for i in 0..len(a)) => slice(x; axis = k, start = a[0], stop = b[-1]) }",
        # slices that follow one another as far as one looks
        *(
            "rule r { concat(slice(x; axis = k, start = a[i], stop = b[i]) for i in 0..len(a); axis = k)"
            f" where {joints} => slice(x; axis = k, start = a[0], stop = b[-1]) }}"
            for joints in (
                "all(b[i] == a[i + 1] for i in 0..min(len(a) - 1, 18))",
                "all(b[i] == a[i + 1] for i in 0..len(a) - 1 - len(a) / 19)",
                "all(b[i] == a[i + 1] or i > 17 for i in 0..len(a) - 1)",
                "all(b[i] == a[i + 1] for i in 0..len(a) - 2)",
                "all(b[i] == a[i + 1] for i in 0..len(a) / 2)",
                "all(1 == 2 for i in 0..len(a) - 2)",
                "not all(b[i] == a[i + 1] for i in 0..len(a) - 1)",
                "all(b[i] == a[i + 1] for i in 0..len(a) - 1) or len(a) > 18",
            )
        ),
        # the sum of the first list alone
        "rule r { matmul(concat(x[..]; axis = 1), concat(y[..]; axis = 0)) where rank(x[0]) == 2 =>"
        " matmul(concat(y[..]; axis = 0), concat(x[..]; axis = 1)) }",
    ],
)
def test_false_for_lists(tmp_path: Path, text: str) -> None:
    rule = of(tmp_path, text)
    assert proved(rule, str(tmp_path / "rules.tsr")).startswith("no: ")


def test_members_of_equal_size(tmp_path: Path) -> None:
    rule = of(
        tmp_path,
        "rule r { each i: y[i] = matmul(x, w[i]) where rank(x) == 2, dim(w[i], 1) == dim(w[0], 1) =>"
        " m = matmul(x, concat(w[..]; axis = 1));"
        " each i: y[i] = slice(m; axis = 1, start = i * dim(w[0], 1), stop = (i + 1) * dim(w[0], 1)) }",
    )
    assert proved(rule, str(tmp_path / "rules.tsr")) == "all sizes, rank 2, any number of tensors"
