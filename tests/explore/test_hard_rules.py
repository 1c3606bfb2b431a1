"""Rules and graphs that are easy to get wrong, each applied by the engine and by plain Python."""

from __future__ import annotations

import pytest

from tensat_dl.engine.applying import LONGEST
from tensat_dl.engine.exploration import Limits
from tests.explore.graphs import explored, graph_in, program_of
from tests.explore.reference import Reference, counterparts

CASES = {
    # The engine's division rounds toward zero, the language's down.
    "division of negative numbers": """
rule r {
  slice(x; axis = 0, start = a, stop = b) where (a - b) / 2 == 0 - 2
  => relu(slice(x; axis = 0, start = a, stop = b))
}
graph g {
  input x : f32[8, 8]
  output slice(x; axis = 0, start = 0, stop = 3), slice(x; axis = 0, start = 1, stop = 5),
         slice(x; axis = 0, start = 1, stop = 6)
}""",
    "remainder of negative numbers": """
rule r {
  slice(x; axis = 0, start = a, stop = b) where (a - b) % 3 == 1
  => relu(slice(x; axis = 0, start = a, stop = b))
}
graph g {
  input x : f32[8, 8]
  output slice(x; axis = 0, start = 0, stop = 1), slice(x; axis = 0, start = 1, stop = 3),
         slice(x; axis = 0, start = 1, stop = 5)
}""",
    # The rule `up` builds tensors of a rank that the graph does not have.
    "a rank that only rules build, conditions": """
rule up { relu(x) => reshape(relu(reshape(x; shape = [1] ++ shape(x))); shape = shape(x)) }
rule r { relu(x) where rank(x) == 2 => tanh(x) }
graph g {
  input x : f32[8, 8]
  output relu(x)
}""",
    "a rank that only rules build, attributes": """
rule up { tanh(x) => reshape(relu(reshape(x; shape = [1] ++ shape(x))); shape = shape(x)) }
rule r { relu(x) => softmax(x; axis = rank(x) - 1) }
graph g {
  input x : f32[8, 8]
  output tanh(x), relu(x)
}""",
    "floats in order": """
rule r { clip(clip(x; low = a, high = b); low = c, high = d) where a <= c, d <= b => clip(x; low = c, high = d) }
rule s { clip(x; low = a, high = b) where a >= 0.0, b > 2 => relu(clip(x; low = a, high = b)) }
rule t { leakyrelu(x; alpha = a) where a < rank(x) or a == 7.0 => tanh(x) }
graph g {
  input x : f32[8]
  output clip(clip(x; low = 0.0, high = 6.0); low = 0.5, high = 6.0),
         clip(clip(x; low = 0.0, high = 6.0); low = -0.5, high = 6.0),
         clip(clip(x; low = -1.5, high = 2.5); low = -1.5, high = 2.0),
         clip(clip(x; low = -1.5, high = 2.5); low = -1.5, high = 2.75),
         leakyrelu(x; alpha = 0.75), leakyrelu(x; alpha = 1.0), leakyrelu(x; alpha = 1.5), leakyrelu(x; alpha = 7.0)
}""",
    # A number that is matched becomes a bound of tensors whose element types have it, or do not.
    "a matched number in integers": """
rule cap { ewmin(relu(x), fill(; value = h, dtype = t, shape = [])) => clip(x; low = 0.0, high = h) }
graph g {
  input x : i32[4, 7]
  input y : u8[4, 7]
  input z : f32[4, 7]
  output ewmin(relu(x), 2.0), ewmin(relu(x), 300.0), ewmin(relu(y), 255.0), ewmin(relu(z), 2.5)
}""",
    "a matched number that integers lack": """
rule r {
  a = ewmin(z, fill(; value = h, dtype = t, shape = []))
  b = relu(x)
  =>
  a = ewmax(z, 0.0)
  b = clip(x; low = 0.0, high = h)
}
graph g {
  input x : i32[4, 7]
  input y : u8[4, 7]
  input z : f32[4, 7]
  output ewmin(z, 2.5), ewmin(z, 3.0), ewmin(z, 300.0), relu(x), relu(y)
}""",
    # The beginning of a list is not the list.
    "a part of a list": """
rule r { reshape(gather(w, i; axis = 0); shape = s) => gather(w, reshape(i; shape = s[..-1]); axis = 0) }
graph g {
  input w : f32[9, 4]
  input i : i64[6]
  output reshape(gather(w, i; axis = 0); shape = [2, 3, 4])
}""",
    "an element of multiples of a list": """
rule r {
  reshape(slice(x; axis = 0, start = a, stop = b); shape = s) where len(s) == 2, [3 * s[0], 3 * s[1]][a] == dim(x, 0)
  => relu(reshape(slice(x; axis = 0, start = a, stop = b); shape = s))
}
graph g {
  input x : f32[9, 2]
  output reshape(slice(x; axis = 0, start = 0, stop = 6); shape = [3, 4]),
         reshape(slice(x; axis = 0, start = 1, stop = 7); shape = [3, 4]),
         reshape(slice(x; axis = 0, start = 1, stop = 7); shape = [4, 3]),
         reshape(slice(x; axis = 0, start = 0, stop = 9); shape = [9, 2])
}""",
    "a computed place that counts from the end": """
rule r {
  reshape(slice(x; axis = 0, start = a, stop = b); shape = s) where s[a - 1] == 4
  => relu(reshape(slice(x; axis = 0, start = a, stop = b); shape = s))
}
graph g {
  input x : f32[9, 4]
  output reshape(slice(x; axis = 0, start = 0, stop = 6); shape = [6, 4]),
         reshape(slice(x; axis = 0, start = 0, stop = 6); shape = [4, 6]),
         reshape(slice(x; axis = 0, start = 1, stop = 7); shape = [4, 6]),
         reshape(slice(x; axis = 0, start = 3, stop = 9); shape = [6, 4])
}""",
    "a preset that depends on variables": """
rule r { conv2d(x, w; stride = s, pads = same) => relu(conv2d(x, w; stride = s, pads = same)) }
graph g {
  input x : f32[1, 3, 8, 8]
  weight w : f32[4, 3, 3, 3]
  output conv2d(x, w; stride = 2, pads = same), conv2d(x, w; stride = 3, pads = same),
         conv2d(x, w; stride = 1, pads = same), conv2d(x, w; stride = 2)
}""",
    "a preset that depends on an attribute without default": """
rule r { poolmax(x; kernel = k, stride = s, pads = same) => relu(poolmax(x; kernel = k, stride = s, pads = same)) }
graph g {
  input x : f32[1, 3, 8, 8]
  output poolmax(x; kernel = 3, stride = 2, pads = same), poolmax(x; kernel = 3, stride = 2)
}""",
    "computed from weights alone, or not": """
rule r { relu(x) where not weight(x) => relu(relu(x)) }
rule s { y = tanh(x) where not weight(y) => y = relu(tanh(x)) }
opaque op noise() { shape [8, 8]; dtype f32 }
graph g {
  input x : f32[8, 8]
  weight w : f32[8, 8]
  output relu(x + w), relu(w * w), relu(noise()), tanh(w), tanh(x)
}""",
    "names of intermediates": """
rule r { relu(tanh(tanh_l0)) => tanh(relu(tanh_l0)) }
graph g {
  input x : f32[8, 8]
  output relu(tanh(x))
}""",
    "a matched output that is also an operand": """
rule r {
  a = relu(x)
  b = tanh(a)
  =>
  c = tanh(a)
  a = relu(relu(x))
  b = relu(c)
}
graph g {
  input x : f32[8, 8]
  output tanh(relu(x))
}""",
    "an integer that measures an intermediate": """
rule r {
  relu(x)
  =>
  m = concat(x, x; axis = 0)
  k = dim(m, 0)
  relu(slice(m; axis = 0, start = 0, stop = k / 2))
}
graph g {
  input x : f32[8, 8]
  output relu(x)
}""",
    "a constant compared with an integer": """
rule r { ewmul(x, c) where value(c) == 6 => ewmul(c, x) }
graph g {
  input x : f32[8, 8]
  output x * 6, x * 5
}""",
    "a constant that must differ": """
rule r { ewmul(x, c) where value(c) != 6 => ewmul(c, x) }
graph g {
  input x : f32[8, 8]
  output x * 6, x * 5, x * x
}""",
    "a constant compared with the dimension of any axis": """
rule r { ewdiv(reduce_sum(x; axis = k), c) where value(c) == dim(x, k) => reduce_mean(x; axis = k) }
graph g {
  input x : f32[3, 4]
  s = reduce_sum(x; axis = 0)
  t = reduce_sum(x; axis = 1)
  output s / 3.0, s / 4.0, t / 3.0, t / 4.0
}""",
    "a word in a condition": """
rule r { matmul(x, y; act = f) where f != relu => tanh(matmul(x, y; act = f)) }
graph g {
  input x : f32[8, 8]
  weight w : f32[8, 8]
  output matmul(x, w; act = relu), matmul(x, w), matmul(x, w; act = tanh)
}""",
    "an element type in a condition": """
rule r { relu(x) where dtype(x) != i32 => relu(relu(x)) }
graph g {
  input x : f32[8, 8]
  input y : i32[8, 8]
  output relu(x), relu(y)
}""",
    "lists that are not shapes": """
opaque op red(x: tensor; axes: ints) { shape shape(x) }
rule r { red(x; axes = a) => relu(red(x; axes = a)) }
rule s { red(x; axes = a) where len(a) == 2 => tanh(red(x; axes = a)) }
graph g {
  input x : f32[8, 8, 8]
  output red(x; axes = [0, 1]), red(x; axes = [0])
}""",
    "an axis inside a list": """
opaque op f(x: tensor; ks: int[2]) { shape shape(x) }
rule r { softmax(x; axis = k) => f(x; ks = [k, k]) }
graph g {
  input x : f32[8, 8, 8]
  output softmax(x; axis = 1), softmax(x; axis = 2)
}""",
    "tensors of very many dimensions": """
rule r { relu(x) where rank(x) < 3 => tanh(x) }
graph g {
  input x : f32[1, 1, 1, 1, 1, 1, 1, 2]
  input y : f32[2]
  output relu(x), relu(y)
}""",
    "activations that differ": """
rule r {
  a = matmul(x, u; act = relu)
  b = matmul(x, v; act = tanh)
  =>
  m = matmul(x, concat(u, v; axis = 1))
  (c, d) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1)])
  a = relu(c)
  b = tanh(d)
}
graph g {
  input x : f32[8, 8]
  weight u : f32[8, 4]
  weight v : f32[8, 6]
  output matmul(x, u; act = relu), matmul(x, v; act = tanh), matmul(x, u; act = tanh), matmul(x, v; act = relu)
}""",
}


@pytest.mark.parametrize("case", CASES)
def test_the_engine_agrees_with_plain_python(case: str) -> None:
    program = program_of(CASES[case])
    graph = graph_in(program)
    rules = [r for r in program.rules if not r.name.startswith(("fuse-", "unfuse-"))]
    rounds = 1 if any(r.kind == "multi" for r in rules) else 2
    reference = Reference(graph, program.ops)
    applied = sum(reference.round(rule, LONGEST) for _ in range(rounds) for rule in rules)
    egraph = explored(graph, rules, Limits(iterations=rounds), program.ops)
    missing, _ = counterparts(egraph, reference)
    assert applied > 0
    assert not missing
    assert egraph.num_nodes == len(reference.nodes)
    assert egraph.num_classes == len(set(reference.nodes.values()))


#: Words that mean something to the engine, and names that generated programs use.
NAMES = (
    "NaN",
    "_",
    "T",
    "Relu",
    "type_of",
    "load",
    "let",
    "union",
    "i0",
    "c0",
    "new",
    "e",
    "t",
    "x",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_may_use_any_name(name: str) -> None:
    program = program_of(
        f"""
rule single {{ relu(tanh({name})) => tanh(relu({name})) }}
rule multi {{
  {name} = relu(i1)
  b = tanh(i1)
  =>
  b = relu(i1)
  {name} = tanh(i1)
}}
graph g {{
  input x : f32[8, 8]
  output relu(tanh(x)), tanh(x), relu(x)
}}"""
    )
    egraph = explored(graph_in(program), program.rules, Limits(iterations=3), program.ops)
    assert "single" in egraph.origin
    assert egraph.roots[1] == egraph.roots[2]


#: Operators whose names are those of sorts and tables once they are capitalised.
OPERATORS = (
    "ints",
    "vec",
    "t",
    "map",
    "string",
    "rational",
    "big_int",
    "unit",
    "pair",
    "multi_set",
    "bool_",
    "i64_",
)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_may_have_any_name(name: str) -> None:
    program = program_of(
        f"""
opaque op {name}(x: tensor, y: tensor?) {{ shape shape(x) }}
rule r {{ {name}(x) => relu({name}(x)) }}
graph g {{
  input x : f32[8, 8]
  output {name}(x), {name}(x, x)
}}"""
    )
    egraph = explored(graph_in(program), program.rules, Limits(iterations=2), program.ops)
    assert egraph.op.count(name) == 2
    assert "r" in egraph.origin
