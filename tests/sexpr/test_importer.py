"""Rules in S-expressions become rules of the language that mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.core.diagnostics import Diagnostic, Source, TsrError
from tensat_dl.lang import ast
from tensat_dl.lang.library import library_operators
from tensat_dl.lang.parser import parse
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.rules import resolve_rule
from tensat_dl.lang.sexpr.importer import ImportedRules, import_rules
from tensat_dl.lang.sexpr.taso_terms import SIGNATURES
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.rule_types import check_rule_types


def imported(text: str, multi: bool = False) -> ImportedRules:
    return import_rules(Source("r.txt", text), multi, library_operators())


def body(text: str, multi: bool = False) -> str:
    """What stands between the braces of the one rule that a text has, on one line."""
    found = imported(text, multi)
    assert found.rules == 1
    return one_line(found.text[found.text.index("{") + 1 : found.text.rindex("}")])


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # modes
        ("(relu (matmul 0 ?x ?w))=>(matmul 2 ?x ?w)", "relu(matmul(x, w)) => matmul(x, w; act = relu)"),
        ("(matmul 1 ?x ?w)=>(sigmoid (matmul 0 ?x ?w))", "matmul(x, w; act = sigmoid) => sigmoid(matmul(x, w))"),
        ("(tanh (matmul 0 ?x ?w))=>(matmul 3 ?x ?w)", "tanh(matmul(x, w)) => matmul(x, w; act = tanh)"),
        (
            "(conv2d 1 1 0 0 ?x ?w)=>(conv2d 2 1 1 2 ?x ?w)",
            "conv2d(x, w; pads = same) => conv2d(x, w; stride = [2, 1], act = relu)",
        ),
        (
            "(poolmax ?x 3 2 2 2 0 2)=>(poolavg ?x 3 3 1 1 1 0)",
            "poolmax(x; kernel = [3, 2], stride = 2, pads = same, act = relu) => poolavg(x; kernel = 3)",
        ),
        (
            "(transpose (reshape ?x 2_3) 1_0 1)=>(reshape ?x 3_2)",
            "transpose(reshape(x; shape = [2, 3]); perm = [1, 0]) => reshape(x; shape = [3, 2])",
        ),
        # what parameters stand for can be matched
        (
            "(conv2d ?sh ?sw 1 ?c (smul ?x ?s) ?w)=>(conv2d ?sh ?sw 1 ?c ?x (smul ?w ?s))",
            "conv2d(smul(x, s), w; stride = [sh, sw], act = c) => "
            "conv2d(x, smul(w, s); stride = [sh, sw], act = c)",
        ),
        (
            "(concat ?a ?n (relu ?x) (relu ?y))=>(relu (concat ?a ?n ?x ?y))",
            "concat(relu(x), relu(y); axis = a) => relu(concat(x, y; axis = a))",
        ),
        # nothing broadcasts
        (
            "(ewadd ?x (ewmul ?y ?z))=>(ewadd (ewmul ?z ?y) ?x)",
            "ewadd(x, ewmul(y, z)) where shape(y) == shape(z), shape(x) == shape(y) => ewadd(ewmul(z, y), x)",
        ),
        (
            "(ewadd (matmul 0 ?x ?w) (relu ?b))=>(ewadd ?b (matmul 0 ?x ?w))",
            "t0 = matmul(x, w) ewadd(t0, relu(b)) where shape(t0) == shape(b) => ewadd(b, t0)",
        ),
        (
            "(matmul 0 (concat 0 2 ?a ?b) ?w)=>(matmul 0 (ewadd ?a ?b) ?w)",
            "matmul(concat(a, b; axis = 0), w) where shape(a) == shape(b), rank(a) == 2 => matmul(ewadd(a, b), w)",
        ),
        # concat names a rank, unless an operator does
        (
            "(concat 0 3 (matmul 0 ?x ?w) (matmul 0 ?y ?w))=>(matmul 0 (concat 0 3 ?x ?y) ?w)",
            "concat(matmul(x, w), matmul(y, w); axis = 0) where rank(x) == 3 => "
            "matmul(concat(x, y; axis = 0), w)",
        ),
        (
            "(conv2d 1 1 1 0 (concat3 1 4 ?x ?y ?z) ?w)=>(conv2d 1 1 1 0 (concat 1 4 ?x (concat 1 4 ?y ?z)) ?w)",
            "conv2d(concat(x, y, z; axis = 1), w) where rank(x) == 4 => "
            "conv2d(concat(x, concat(y, z; axis = 1); axis = 1), w)",
        ),
        ("(concat 0 4 (relu (conv2d 1 1 1 0 ?x ?u)) ?y)=>(relu ?y)",
         "concat(relu(conv2d(x, u)), y; axis = 0) where rank(y) == 4 => relu(y)"),
        # split cuts where a concat joined
        (
            "(split_0 (split 1 (concat 1 2 ?x ?y)))=>?x",
            "slice(concat(x, y; axis = 1); axis = 1, start = 0, stop = dim(x, 1)) where rank(x) == 2 => x",
        ),
        (
            "(split_1 (split 0 (relu (concat 0 2 ?x ?y))))=>(relu ?y)",
            "slice( relu(concat(x, y; axis = 0)); axis = 0, start = dim(x, 0), stop = dim(x, 0) + dim(y, 0) ) "
            "where rank(x) == 2 => relu(y)",
        ),
        (
            "(matmul 0 ?x (concat 1 3 ?u ?v))=>(split_0 (split 1 (concat 1 3 (matmul 0 ?x ?u) ?v)))",
            "matmul(x, concat(u, v; axis = 1)) where rank(u) == 3 => t0 = matmul(x, u) "
            "slice(concat(t0, v; axis = 1); axis = 1, start = 0, stop = dim(t0, 1))",
        ),
        (
            "(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (enlarge 3 4 ?w))",
            "conv2d(x, w; pads = same) where dim(w, 2) % 2 == 1, dim(w, 3) % 2 == 0 => "
            "conv2d(x, enlarge(w; kernel = [3, 4]); pads = same)",
        ),
        # groups, and constants
        (
            "(conv2d 2 2 0 0 (relu ?x) ?w)=>(conv2d 2 2 0 0 (relu ?x) (merge ?w 2))",
            "conv2d(relu(x), w; stride = 2, pads = same) => conv2d( relu(x), "
            "merge(w; groups = dim(x, 1) / dim(w, 1), count = 2); stride = 2, pads = same )",
        ),
        (
            "(conv2d 1 1 0 0 ?x (Iconv 3 5))=>?x",
            "conv2d( x, conv_identity(; channels = c0, groups = g0, kernel = [3, 5], dtype = d0); pads = same ) "
            "=> x",
        ),
        (
            "(poolavg ?x 3 3 1 1 1 0)=>(conv2d 1 1 1 0 ?x (Cpool 3 3))",
            "poolavg(x; kernel = 3) => "
            "conv2d(x, conv_average(; channels = dim(x, 1), kernel = 3, dtype = dtype(x)))",
        ),
        ("(matmul 0 Imatmul ?x)=>?x", "matmul(eye(; n = n0, dtype = d0), x) => x"),
        ("(matmul 0 ?x (Imatmul))=>?x", "matmul(x, eye(; n = n0, dtype = d0)) => x"),
        (
            "(relu ?x)=>(matmul 0 (relu ?x) Imatmul)",
            "y0 = relu(x) => y0 = matmul(relu(x), eye(; n = dim(y0, -1), dtype = dtype(x)))",
        ),
        (
            "(ewmul ?x Iewmul)=>(relu ?x)",
            "ewmul(x, fill(; value = 1.0, dtype = d0, shape = s0)) => relu(x)",
        ),
        # names
        ("(relu ?input_3)=>(tanh ?input_3)", "relu(x3) => tanh(x3)"),
        ("(ewadd ?in (relu ?relu))=>(ewadd (relu ?relu) ?in)",
         "ewadd(in_, relu(relu_)) where shape(in_) == shape(relu_) => ewadd(relu(relu_), in_)"),
        ("(ewadd ?a.b ?a_b)=>(ewadd ?a_b ?a.b)",
         "ewadd(a_b, a_b_) where shape(a_b) == shape(a_b_) => ewadd(a_b_, a_b)"),
        ("(relu ?1)=>(tanh ?1)", "relu(x1) => tanh(x1)"),
    ],
)  # fmt: skip
def test_meaning(line: str, expected: str) -> None:
    assert body(line) == one_line(expected)


def test_two_lines_are_one_rule() -> None:
    lines = """\
(matmul 0 ?x ?u)=>(split_0 (split 1 (matmul 0 ?x (concat 1 2 ?u ?v))))
(matmul 0 ?x ?v)=>(split_1 (split 1 (matmul 0 ?x (concat 1 2 ?u ?v))))
"""
    assert body(lines, multi=True) == (
        "y0 = matmul(x, u) y1 = matmul(x, v) where rank(u) == 2 => (y0, y1) = "
        "split(matmul(x, concat(u, v; axis = 1)); axis = 1, sizes = [dim(u, 1), dim(v, 1)])"
    )


def test_parts_in_the_other_order() -> None:
    """The results are told by the parts that they are, not by their lines."""
    lines = """\
(conv2d 1 1 0 0 ?x ?v)=>(split_1 (split 1 (conv2d 1 1 0 0 ?x (concat 0 4 (enlarge ?u ?v) ?v))))
(conv2d 1 1 0 0 ?x ?u)=>(split_0 (split 1 (conv2d 1 1 0 0 ?x (concat 0 4 (enlarge ?u ?v) ?v))))
"""
    assert body(lines, multi=True) == (
        "y0 = conv2d(x, v; pads = same) y1 = conv2d(x, u; pads = same) => (y1, y0) = split("
        "conv2d(x, concat(enlarge(u; kernel = [dim(v, 2), dim(v, 3)]), v; axis = 0); pads = same); "
        "axis = 1, sizes = [dim(u, 0), dim(v, 0)])"
    )


def test_a_padding_variable_is_two_rules() -> None:
    found = imported("(relu (conv2d 1 1 ?p 0 ?x ?w))=>(conv2d 1 1 ?p 2 ?x ?w)")
    assert found.rules == 2
    assert "rule r-1-same {" in found.text
    assert "rule r-1-valid {" in found.text
    assert found.text.count("pads = same") == 2


def test_docs_show_the_lines() -> None:
    assert (
        "/// (relu ?x)=>(tanh ?x)\nrule r-2 { relu(x) => tanh(x) }\n"
        in imported("\n(relu  ?x)=>(tanh ?x)").text
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/my rules.txt", "my-rules-1"), ("7.txt", "rule-7-1"), ("<stdin>", "stdin-1"), ("é.txt", "rule-1")],
)
def test_names_of_rules(path: str, name: str) -> None:
    text = import_rules(Source(path, "(relu ?x)=>(tanh ?x)"), False, library_operators()).text
    assert f"\nrule {name} {{" in text
    assert print_file(parse(Source("out.tsr", text))) == text


def test_a_repeated_rule_is_left_out() -> None:
    """Also if its variables have other names; not if one variable stands where two stood."""
    found = imported(
        "(ewadd (relu ?x) ?y)=>(ewadd ?y (relu ?x))\n(ewadd (relu ?a) ?b)=>(ewadd ?b (relu ?a))\n"
        "(ewadd (relu ?a) ?a)=>(ewadd ?a (relu ?a))"
    )
    assert found.rules == 2
    (note,) = found.notes
    assert note.span is not None
    assert (note.span.place, note.message) == ("r.txt:2:1", "this rule repeats line 1: left out")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "", "the file has no rules"),
        ("(reluu ?x)=>?x", "1:2", "unknown operator `reluu`"),
        ("(noop ?x ?y)=>?x", "1:2", "`noop` does not stand in rules"),
        ("(enlarge 3 3 3 ?x)=>?x", "1:1", "`enlarge` takes 2 arguments, not 4"),
        ("(matmul ?x ?y)=>?x", "1:1", "`matmul` takes 3 arguments, not 2"),
        ("(Imatmul 3)=>(relu Imatmul)", "1:1", "`Imatmul` takes no arguments, not 1"),
        ("(matmul 4 ?x ?y)=>?x", "1:9", "there is no activation 4"),
        ("(matmul -1 ?x ?y)=>?x", "1:9", "`-1` is no activation"),
        ("(conv2d 1 1 2 0 ?x ?y)=>?x", "1:13", "there is no padding 2"),
        ("(conv2d 99999999999999999999 1 0 0 ?x ?y)=>?x", "1:9", "there is no number"),
        ("(conv2d 1.5 1 0 0 ?x ?y)=>?x", "1:9", "`1.5` is no number"),
        ("(concat (relu ?x) 2 ?x ?y)=>?x", "1:9", "a number stands here, not a tensor"),
        ("(transpose ?x 1,0 0)=>?x", "1:15", "`1,0` is no list"),
        ("(relu x)=>?x", "1:7", "`x` is no tensor"),
        ("(relu 3)=>?x", "1:7", "a tensor stands here, not the number 3"),
        ("(relu relu)=>?x", "1:7", "`relu` has arguments"),
        ("(relu ?)=>?x", "1:7", "a variable has a name"),
        ("(matmul ?a ?a ?b)=>?b", "1:12", "`?a` is an activation elsewhere, and a tensor here"),
        ("?x=>(relu ?x)", "1:1", "the left side is a lone variable"),
        ("(relu ?x)=>?y", "1:12", "`?y` does not stand on the left side"),
        ("(split 0 ?x)=>?x", "1:1", "`split` gives two tensors"),
        ("(relu (split 0 ?x))=>?x", "1:7", "`split` gives two tensors"),
        ("(split_0 ?x)=>?x", "1:10", "`split_0` takes a `split`"),
        ("(split_0 (split 0 (relu ?x)))=>?x", "1:10", "where this `split` cuts is not known"),
        ("(split_0 (split 1 (concat 0 2 ?x ?y)))=>?x", "1:10", "where this `split` cuts is not known"),
        ("(split_0 (split 0 (concat3 0 2 ?x ?y ?z)))=>?x", "1:10", "where this `split` cuts is not known"),
        ("(relu ?x)=>(merge ?x 2)", "1:12", "`merge` is about the groups of a convolution"),
        ("(relu ?x)=>(relu (Cpool 3 3))", "1:18", "`Cpool` has its channels from a convolution's input"),
        ("(concat 0 2 (conv2d 1 1 0 0 ?x ?w) ?y)=>?y", "1:13", "`concat` says that its operands have rank 2"),
    ],
)  # fmt: skip
def test_what_is_not_understood(text: str, place: str, message: str) -> None:
    with pytest.raises(TsrError) as raised:
        imported(text)
    found = [(d.span.place if d.span else "", d.message) for d in raised.value.diagnostics]
    assert len(found) == 1
    assert found[0][0] == (f"r.txt:{place}" if place else "")
    assert message in found[0][1]


@pytest.mark.parametrize("good", ["", "(relu ?x)=>(tanh ?x)"])
def test_several_problems_at_once(good: str) -> None:
    """The rules with problems are left out. If no rule is left that is an error."""
    text = f"(relux ?x)=>(conv2d 1 1 9 9 ?x x)\n(f)\n{good}\n(relu ?x)=>?y"
    if good:
        found = imported(text)
        problems = found.problems
        assert (found.rules, found.left_out) == (1, 3)
        assert "rule r-3 { relu(x) => tanh(x) }" in found.text
    else:
        with pytest.raises(TsrError) as raised:
            imported(text)
        problems = raised.value.diagnostics
    places = [d.span.place for d in problems if d.span]
    assert places == ["r.txt:1:2", "r.txt:1:25", "r.txt:1:27", "r.txt:1:32", "r.txt:2:1", "r.txt:4:12"]


def test_a_pair_with_a_problem_is_left_out() -> None:
    """Also if one of its lines can't be read: the lines after it are still pairs."""
    pair = "(matmul 0 ?x ?u)=>(tanh ?x)\n(matmul 0 ?x ?v)=>(tanh ?x)\n"
    for wrong in ("(relu ?x)=>(tanh ?x)\n(relu ?y\n", "(relu ?x)=>(tanh ?x)\n(reluu ?y)=>(tanh ?y)\n"):
        for text, line in ((wrong + pair, 3), (pair + wrong, 1)):
            found = imported(text, multi=True)
            assert (found.rules, found.left_out, len(found.problems)) == (1, 1, 1)
            assert f"rule r-{line} {{" in found.text


#: True rules, whose translations were false: for integers, for kernels of other channels, for even kernels.
TRUE = """\
(ewadd (poolavg ?x 3 3 1 1 0 0) (poolavg ?y 3 3 1 1 0 0))=>(poolavg (ewadd ?x ?y) 3 3 1 1 0 0)
(smul (poolavg ?x 3 3 1 1 0 0) ?y)=>(poolavg (smul ?x ?y) 3 3 1 1 0 0)
(conv2d 1 1 0 0 (conv2d 1 1 0 0 ?x (Iconv 3 3)) ?w)=>(conv2d 1 1 0 0 ?x ?w)
(conv2d 1 1 0 0 (conv2d 1 1 1 0 ?x (Cpool 3 3)) ?w)=>(conv2d 1 1 0 0 (poolavg ?x 3 3 1 1 1 0) ?w)
(relu (ewmul (relu ?x) Iewmul))=>(relu ?x)
(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (enlarge 3 3 ?w))
(conv2d 1 1 0 2 ?x (enlarge 5 3 ?w))=>(relu (conv2d 1 1 0 0 ?x ?w))
"""


def test_true_rules_stay_true() -> None:
    ops = library_operators()
    items = parse(Source("out.tsr", imported(TRUE).text)).items
    rules = [rule for item in items if isinstance(item, ast.Rule) for rule in resolve_rule(item, ops)]
    assert [Examiner(ops).verdict(rule).status for rule in rules] == ["tested"] * TRUE.count("\n")


def test_multi_pattern_rules_without_the_option() -> None:
    with pytest.raises(TsrError) as raised:
        imported("(relu ?x)=>(split_0 (split 0 (relu (concat 0 2 ?x ?y))))")
    assert "--multi" in raised.value.diagnostics[0].hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(relu ?x)=>(tanh ?x)", "the file ends with half a rule"),
        ("(relu ?x)=>(tanh ?x)\n(relu ?x)=>(tanh ?x)", "both lines have the same left side"),
    ],
)
def test_bad_pairs(text: str, message: str) -> None:
    with pytest.raises(TsrError, match=message):
        imported(text, multi=True)


# ---- any rules ------------------------------------------------------------------------------------------

TENSORS = ["?x", "?y", "?input_1", "Imatmul"]
WORDS = [*SIGNATURES, *TENSORS, "?p", "0", "1", "2", "1_0", "-1", "(", ")", "=>", "\n", " "]


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_words(text: str, multi: bool) -> None:
    """Whatever the text, it is imported or refused with places in it."""
    problems: tuple[Diagnostic, ...] = ()
    try:
        imported(text, multi)
    except TsrError as e:
        problems = e.diagnostics
    assert all(d.span is not None or d.message == "the file has no rules" for d in problems)


def expressions(depth: int = 3) -> st.SearchStrategy[str]:
    """Expressions that are right by their form."""
    if depth == 0:
        return st.sampled_from(TENSORS[:3])
    inner = expressions(depth - 1)
    small = st.integers(1, 3).map(str)
    choices = {
        "number": small | st.sampled_from(["?m", "?n"]),
        "padding": st.sampled_from(["0", "1", "?p"]),
        "activation": st.sampled_from(["0", "1", "2", "3", "?act"]),
        "list": st.sampled_from(["1_0", "0_2_1", "?perm"]),
        "flag": st.just("0"),
        "tensor": inner,
    }
    formed = [
        st.tuples(*(choices[kind] for kind in kinds)).map(lambda parts, op=op: f"({op} {' '.join(parts)})")
        for op, kinds in SIGNATURES.items()
        if kinds and op not in ("split", "split_0", "split_1")
    ]
    return st.one_of(inner, *formed)


@given(expressions(), expressions())
@settings(max_examples=300, deadline=None)
def test_any_rule(left: str, right: str) -> None:
    """What is imported is formatted, and is a rule that means what was translated."""
    try:
        found = imported(f"{left}=>{right}")
    except TsrError:
        return
    tree = parse(Source("out.tsr", found.text))
    assert print_file(tree) == found.text
    rules = [item for item in tree.items if isinstance(item, ast.Rule)]
    assert len(rules) == found.rules
    for rule in rules:
        assert rule.doc == f"{left}=>{right}"
        resolve_rule(rule, library_operators())


def test_imported_rules_type_check() -> None:
    found = imported(
        "(concat 1 2 (matmul 0 ?x ?u) (matmul 0 ?x ?v))=>(matmul 0 ?x (concat 1 2 ?u ?v))\n"
        "(conv2d ?a ?b ?p 0 ?x (Cpool ?kx ?ky))=>(poolavg ?x ?kx ?ky ?a ?b ?p 0)\n"
        "(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (merge ?w 2))\n"
        "(matmul 0 ?x Imatmul)=>?x\n(ewmul ?x Iewmul)=>?x\n(conv2d 1 1 0 0 ?x (Iconv 3 3))=>?x\n"
        "(split_1 (split ?a (concat ?a ?n ?x ?y)))=>?y\n"
    )
    for item in parse(Source("out.tsr", found.text)).items:
        assert isinstance(item, ast.Rule)
        for rule in resolve_rule(item, library_operators()):
            assert check_rule_types(rule, library_operators()) == []
