"""The example models against what they are written after.

Four of the paper's graphs are published in TASO's text form, and the examples agree with them node for node.
Those files are kept beside the repository and not in it: without them these tests are skipped. The paper's
other graphs are checked against figures that follow from their description, attention against NumPy.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tensat_dl
from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.core.graph import Graph, Node
from tensat_dl.lang import ast
from tensat_dl.lang.elaborate import elaborate, elaborate_test
from tensat_dl.lang.load import read_source
from tensat_dl.lang.named_sizes import named_sizes
from tensat_dl.lang.parser import parse
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.semantics import SEMANTICS, Array
from tensat_dl.verify.execute import execute
from tests.examples.steps import Shape, from_graph, from_taso, results, same_formulas, summary

pytestmark = pytest.mark.sampled(4)


def consumers(graph: Graph) -> list[list[int]]:
    """For each node the nodes that take it as an input, each once."""
    users: list[list[int]] = [[] for _ in graph.nodes]
    for i, node in enumerate(graph.nodes):
        for j in set(node.inputs):
            users[j].append(i)
    return users


ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.tsr"))
PUBLISHED = ROOT.parent / "shared" / "data" / "tensat"


def only_graph(program: Program) -> Graph:
    """The only graph of a program. It may not have raised a warning."""
    warnings: list[Diagnostic] = []
    (item,) = program.graphs.values()
    sizes = {s.name: s.default for s in named_sizes(item, program.ops)}
    graph = elaborate(item, program.ops, program.blocks, warnings.append, sizes)
    assert not [w.message for w in warnings]
    return graph


@cache
def program_of(name: str) -> Program:
    return load_program(str(ROOT / "examples" / f"{name}.tsr"))


@cache
def example(name: str) -> Graph:
    return only_graph(program_of(name))


# ---- every example ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_is_a_documented_graph_of_its_own_name(path: Path) -> None:
    items = parse(read_source(str(path))).items
    graphs = [item for item in items if isinstance(item, ast.GraphItem)]
    assert [graph.name for graph in graphs] == [path.stem]
    assert all(item.doc for item in items if isinstance(item, ast.GraphItem | ast.Block | ast.Rule | ast.Op))
    # There is something to rewrite with.
    assert items[0] == ast.Import("standard", span=items[0].span) or any(
        isinstance(i, ast.Rule) for i in items
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_elaborates_to_the_same_graph_each_time(path: Path) -> None:
    first, second = example(path.stem), only_graph(load_program(str(path)))
    assert first == second
    assert [node.name for node in first.nodes] == [node.name for node in second.nodes]
    named = [node.attr("name") for node in first.nodes if node.op in ("input", "weight")]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_sides_of_its_tests_have_the_same_outputs(path: Path) -> None:
    program = program_of(path.stem)
    for test in program.tests:
        made = elaborate_test(test, program.ops, program.blocks)
        sides = [graph for graph in (made.before, made.after) if graph is not None]
        types = [[graph.nodes[i].type for _, i in graph.outputs] for graph in sides]
        assert types[0] == types[-1]


# ---- the published graphs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("inception_v3", "inceptionv3"),
        ("mobilenet_v2", "mobilenetv2"),
        ("squeezenet", "squeezenet"),
        ("vgg19", "vgg"),
    ],
)
def test_agrees_with_the_published_graph(name: str, published: str) -> None:
    path = PUBLISHED / f"{published}.model"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository")
    theirs = from_taso(path)
    outputs = results(theirs)
    assert len(outputs) == 1
    graph = example(name)
    ours = from_graph(graph)
    our_outputs = [i for _, i in graph.outputs]
    assert summary(ours, our_outputs) == summary(theirs, outputs)
    assert same_formulas((ours, our_outputs), (theirs, outputs))


# ---- the other graphs of the paper -----------------------------------------------------------------------


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """The shapes of a node's operands."""
    return tuple(graph.nodes[j].type.shape for j in node.inputs)


def first(node: Node, name: str) -> int:
    """The first of an attribute's two integers, which must be equal."""
    value = node.attr(name)
    assert isinstance(value, tuple)
    assert value[0] == value[1]
    return value[0]


def applications(graph: Graph) -> Counter[tuple[str, tuple[Shape, ...]]]:
    """How often each operator is applied to each shapes."""
    return Counter((node.op, shapes(graph, node)) for node in graph.nodes if node.inputs)


def counts(graph: Graph) -> dict[str, int]:
    """How often each operator is applied, leaves left out."""
    return {op: n for op, n in graph.count().items() if op not in ("input", "weight")}


def with_blocks(path: Path, model: str, body: str) -> Graph:
    """A graph that is written with the blocks of an example."""
    path.write_text(f'import "{(ROOT / "examples" / model).as_posix()}.tsr"\ngraph small {{\n{body}\n}}\n')
    return only_graph(load_program(str(path)))


def output_shapes(graph: Graph) -> list[Shape]:
    return [graph.nodes[i].type.shape for _, i in graph.outputs]


Conv = tuple[Shape, int, str]


def convolutions(graph: Graph) -> Counter[Conv]:
    """Weight shape, stride and activation of every convolution. Each must keep ceil(size / stride)."""
    found: Counter[Conv] = Counter()
    for node in graph.nodes:
        if node.op == "conv2d":
            x, w = shapes(graph, node)
            stride = first(node, "stride")
            assert node.type.shape[2:] == tuple(-(-n // stride) for n in x[2:])
            found[w, stride, str(node.attr("act"))] += 1
    return found


def test_bert() -> None:
    graph, layers = example("bert"), 8
    tokens, split, batch = (64, 1024), (64, 16, 64), (16, 64, 64)
    assert applications(graph) == {
        ("relu", (tokens,)): 1,
        ("matmul", (tokens, (1024, 1024))): 4 * layers,
        ("reshape", (tokens,)): 3 * layers,
        ("transpose", (split,)): 3 * layers,
        ("matmul", (batch, batch)): 2 * layers,
        ("transpose", (batch,)): layers,
        ("reshape", (split,)): layers,
    }
    assert {node.attr("perm") for node in graph.nodes if node.op == "transpose"} == {(1, 0, 2)}
    assert output_shapes(graph) == [tokens] * (layers + 1)
    # Every x is read by four products, the last by none, and nothing reads an output of the heads.
    users = consumers(graph)
    assert [len(users[i]) for _, i in graph.outputs] == [0] * (layers + 1)
    readers = Counter(node.inputs[0] for node in graph.nodes if node.op == "matmul")
    assert sorted(readers.values()) == [1] * 2 * layers + [4] * layers


def test_nasrnn() -> None:
    graph, steps = example("nasrnn"), 5
    assert counts(graph) == {
        "matmul": 16 * steps,
        "ewadd": 11 * steps,
        "ewmul": 4 * steps,
        "relu": 2 * steps,
        "sigmoid": 5 * steps,
        "tanh": 8 * steps,
    }
    assert {s for (op, s) in applications(graph) if op == "matmul"} == {((1, 512), (512, 512))}
    assert output_shapes(graph) == [(1, 512)]
    users = consumers(graph)
    assert [len(users[i]) for i in graph.inputs] == [8] * steps
    matrices = [i for i in graph.weights if graph.nodes[i].type.shape == (512, 512)]
    assert [len(users[i]) for i in matrices] == [1] * 16 * steps
    (start,) = set(graph.weights) - set(matrices)
    assert (graph.nodes[start].type.shape, len(users[start])) == ((1, 512), 8)


def test_nasrnn_cell(tmp_path: Path) -> None:
    body = "input x : f32[1, 4]; input h : f32[1, 4]; output cell(x, h)"
    graph = with_blocks(tmp_path / "small.tsr", "nasrnn", body)

    def formula(i: int) -> str:
        node = graph.nodes[i]
        if node.op == "matmul":
            x, w = (graph.nodes[j].name for j in node.inputs)
            return f"{x} {w.removeprefix('cell_0_')}"
        operands = [formula(j) for j in node.inputs]
        if node.op in ("ewadd", "ewmul"):
            return f"({operands[0]} {'+' if node.op == 'ewadd' else '*'} {operands[1]})"
        return f"{node.op} {operands[0]}"

    t = [f"(x u_{i} + h v_{i})" for i in range(8)]
    m0, m1 = f"(relu {t[0]} + sigmoid {t[3]})", f"(sigmoid {t[1]} + tanh {t[2]})"
    m2, m3 = f"(sigmoid {t[4]} * tanh {t[5]})", f"(sigmoid {t[6]} * relu {t[7]})"
    m4, m5 = f"(sigmoid {m1} + tanh {m2})", f"(tanh {m0} * tanh {m3})"
    assert formula(graph.outputs[0][1]) == f"tanh (tanh {m4} * tanh {m5})"


def bottlenecks(widths: list[int], expansion: int, groups: int) -> Counter[Conv]:
    """The convolutions of the stages of a residual network after a stem of 64 channels."""
    convs: Counter[Conv] = Counter()
    channels = 64
    for width, blocks, stride in zip(widths, (3, 4, 6, 3), (1, 2, 2, 2), strict=True):
        out = expansion * width
        convs[(out, channels, 1, 1), stride, "relu"] += 1  # the shortcut
        for s in [stride] + [1] * (blocks - 1):
            convs[(width, channels, 1, 1), 1, "relu"] += 1
            convs[(width, width // groups, 3, 3), s, "relu"] += 1
            convs[(out, width, 1, 1), 1, "none"] += 1
            channels = out
    return convs


def test_resnet50() -> None:
    graph = example("resnet50")
    assert convolutions(graph) == bottlenecks([64, 128, 256, 512], expansion=4, groups=1)
    assert counts(graph) == {"conv2d": 52, "ewadd": 16, "relu": 16}
    assert output_shapes(graph) == [(1, 2048, 7, 7)]


def test_resnext50() -> None:
    graph = example("resnext50")
    stem: Counter[Conv] = Counter({((64, 3, 7, 7), 2, "relu"): 1})
    assert convolutions(graph) == stem + bottlenecks([128, 256, 512, 1024], expansion=2, groups=32)
    assert counts(graph) == {"conv2d": 53, "poolmax": 1, "ewadd": 16, "relu": 16}
    assert output_shapes(graph) == [(1, 2048, 7, 7)]


def test_nasnet_a() -> None:
    graph = example("nasnet_a")
    convs: Counter[Conv] = Counter({((64, 3, 7, 7), 2, "relu"): 1})

    def squeeze(prev: int, cur: int, c: int) -> None:
        convs.update([((c, prev, 1, 1), 1, "relu"), ((c, cur, 1, 1), 1, "relu")])

    def separable(c: int, *kernels: tuple[int, int]) -> None:
        for k, stride in kernels:
            convs.update([((c, 1, k, k), stride, "none"), ((c, c, 1, 1), 1, "none")])

    prev = cur = 64
    for c in (128, 256, 512):
        for _ in range(5):
            squeeze(prev, cur, c)
            separable(c, (3, 1), (3, 1), (3, 1), (3, 1), (3, 1))
            prev, cur = cur, 5 * c
        squeeze(prev, cur, 2 * c)
        separable(2 * c, (7, 2), (5, 2), (7, 2), (5, 2), (3, 1))
        prev = cur = 10 * c
    assert convolutions(graph) == convs

    # A pool that a cell uses twice is one node: a normal cell has two means, a reduction cell also a maximum.
    cells = 3 * 5 + 3
    expected = {"conv2d": 1 + 12 * cells, "ewadd": 5 * cells, "concat": cells}
    assert counts(graph) == expected | {"poolmax": 1 + 3, "poolavg": 2 * cells}
    assert output_shapes(graph) == [(1, 5120, 7, 7)]


def test_nasnet_a_cells(tmp_path: Path) -> None:
    def sums(block: str) -> list[str]:
        body = f"""
          input prev : f32[1, 4, 8, 8]
          input cur : f32[1, 4, 8, 8]
          (next, cell) = {block}(prev, cur; width = 2)
          output next, cell
        """
        graph = with_blocks(tmp_path / f"{block}.tsr", "nasnet_a", body)

        def term(i: int) -> str:
            node = graph.nodes[i]
            if node.op == "input":
                return node.name
            x = term(node.inputs[0])
            if node.op == "ewadd":
                return f"({x} + {term(node.inputs[1])})"
            if node.op != "conv2d":
                return f"{node.op.removeprefix('pool')}{first(node, 'kernel')}/{first(node, 'stride')} {x}"
            out, per_group, size, _ = shapes(graph, node)[1]
            if node.attr("act") == "relu":
                assert (out, per_group, size) == (2, 4, 1)
                return x
            return x if size == 1 else f"sep{size}/{first(node, 'stride')} {x}"

        cell = graph.nodes[graph.outputs[1][1]]
        assert (cell.op, cell.attr("axis")) == ("concat", 1)
        return [term(i) for i in cell.inputs]

    assert sums("normal_cell") == [
        "(sep3/1 cur + cur)",
        "(sep3/1 prev + sep3/1 cur)",
        "(avg3/1 cur + prev)",
        "(avg3/1 prev + avg3/1 prev)",
        "(sep3/1 prev + sep3/1 prev)",
    ]
    o1 = "(sep7/2 prev + sep5/2 cur)"
    o2 = "(max3/2 cur + sep7/2 prev)"
    o3 = "(avg3/2 cur + sep5/2 prev)"
    assert sums("reduction_cell") == [o1, o2, o3, f"(max3/2 cur + sep3/1 {o1})", f"(avg3/1 {o1} + {o2})"]


# ---- transformers ----------------------------------------------------------------------------------------


def test_bert_encoder() -> None:
    graph, layers = example("bert_encoder"), 12
    tokens, heads = (128, 768), (12, 128, 64)
    products = {key: n for key, n in applications(graph).items() if key[0] == "matmul"}
    assert products == {
        ("matmul", (tokens, (768, 768))): 4 * layers,
        ("matmul", (heads, (12, 64, 128))): layers,
        ("matmul", ((12, 128, 128), heads)): layers,
        ("matmul", (tokens, (768, 3072))): layers,
        ("matmul", ((128, 3072), (3072, 768))): layers,
    }
    assert counts(graph) == {
        "fill": 1,
        "matmul": 8 * layers,
        "ewadd": 8 * layers,  # six biases and two residual connections
        "ewmul": layers,
        "softmax": layers,
        "gelu": layers,
        "layernorm": 2 * layers + 1,
        "reshape": 4 * layers,
        "transpose": 5 * layers,
    }
    assert output_shapes(graph) == [tokens]


def test_gpt_block() -> None:
    graph = example("gpt_block")
    x, stacked = (128, 2048), (8, 512, 64)
    products = {key: n for key, n in applications(graph).items() if key[0] == "matmul"}
    assert products == {
        ("matmul", (x, (2048, 2048))): 2,  # queries, output
        ("matmul", (x, (2048, 512))): 2,  # keys, values
        ("matmul", (stacked, (8, 64, 128))): 1,
        ("matmul", ((8, 512, 128), (8, 128, 64))): 1,
        ("matmul", (x, (2048, 8192))): 2,
        ("matmul", ((128, 8192), (8192, 2048))): 1,
    }
    assert output_shapes(graph) == [x]


def test_gpt_decode() -> None:
    graph, layers = example("gpt_decode"), 12
    token, cache = (1, 768), (12, 256, 64)
    products = {key: n for key, n in applications(graph).items() if key[0] == "matmul"}
    assert products == {
        ("matmul", (token, (768, 768))): 4 * layers,
        ("matmul", ((12, 1, 64), (12, 64, 256))): layers,
        ("matmul", ((12, 1, 256), cache)): layers,
        ("matmul", (token, (768, 3072))): layers,
        ("matmul", ((1, 3072), (3072, 768))): layers,
    }
    assert counts(graph)["layernorm"] == 2 * layers + 1
    assert output_shapes(graph) == [token, *[cache] * (2 * layers)]


def run_blocks(path: Path, model: str, body: str) -> tuple[dict[str, Array], list[Array]]:
    """Values by name, and the outputs, of a graph that is written with the blocks of an example."""
    small = with_blocks(path, model, body)
    draw = np.random.default_rng(0)
    values: dict[str, Array] = {}
    for i in (*small.inputs, *small.weights):
        node = small.nodes[i]
        values[str(node.attr("name"))] = draw.normal(size=node.type.shape) / node.type.shape[0] ** 0.5
    silu = {"silu": lambda x: x / (1 + np.exp(-x))}
    return values, execute(small, values, {**SEMANTICS, **silu})


def soft(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    weights: Array = e / e.sum(axis=-1, keepdims=True)
    return weights


def columns(x: Array, head: int) -> Array:
    """The elements of one head of 64."""
    return x[:, 64 * head : 64 * (head + 1)]


def test_attention_of_the_encoder_is_that_of_each_head(tmp_path: Path) -> None:
    body = "input x : f32[6, 128]; output attention(x)"
    values, (found,) = run_blocks(tmp_path / "small.tsr", "bert_encoder", body)
    w = [values[f"attention_0_linear_{i}_w"] for i in range(4)]
    b = [values[f"attention_0_linear_{i}_b"] for i in range(4)]
    q, k, v = (values["x"] @ w[i] + b[i] for i in range(3))
    heads = [soft(columns(q, h) @ columns(k, h).T / 8) @ columns(v, h) for h in range(2)]
    np.testing.assert_allclose(found, np.hstack(heads) @ w[3] + b[3])


def test_grouped_attention_is_that_of_each_head(tmp_path: Path) -> None:
    body = """
      input x : f32[5, 96]
      input mask : f32[5, 5]
      input cosines : f32[5, 64]
      input sines : f32[5, 64]
      output attention(x, mask, cosines, sines; heads = 6, shared = 2)
    """
    values, (found,) = run_blocks(tmp_path / "small.tsr", "gpt_block", body)
    x, mask, cosines, sines = (values[name] for name in ("x", "mask", "cosines", "sines"))
    wq, wk, wv, wo = (values[f"attention_0_linear_{i}_w"] for i in range(4))

    def rotated(head: Array) -> Array:
        turned: Array = head * cosines + np.hstack([-head[:, 32:], head[:, :32]]) * sines
        return turned

    heads = []
    for h in range(6):
        q, k, v = rotated(columns(x @ wq, h)), rotated(columns(x @ wk, h // 3)), columns(x @ wv, h // 3)
        heads.append(soft(q @ k.T / 8 + mask) @ v)
    np.testing.assert_allclose(found, np.hstack(heads) @ wo)


#: One token of an attention of two heads with a cache of four.
STEP = """
  input x : f32[1, 128]
  input past_keys : f32[2, 4, 64]
  input past_values : f32[2, 4, 64]
  (mixed, keys, values) = attention(x, past_keys, past_values)
  output mixed, keys, values
"""


def test_a_step_with_a_cache_is_the_last_row_of_causal_attention(tmp_path: Path) -> None:
    values, (found, keys, kept) = run_blocks(tmp_path / "small.tsr", "gpt_decode", STEP)
    w = [values[f"attention_0_linear_{i}_w"] for i in range(4)]
    b = [values[f"attention_0_linear_{i}_b"] for i in range(4)]
    q, k, v = (values["x"] @ w[i] + b[i] for i in range(3))
    heads = []
    for h in range(2):  # over all five tokens, the last of which sees every other
        all_keys = np.vstack([values["past_keys"][h], columns(k, h)])
        all_values = np.vstack([values["past_values"][h], columns(v, h)])
        np.testing.assert_allclose(keys[h], all_keys)
        np.testing.assert_allclose(kept[h], all_values)
        heads.append(soft(columns(q, h) @ all_keys.T / 8) @ all_values)
    np.testing.assert_allclose(found, np.hstack(heads) @ w[3] + b[3])


def test_a_step_with_a_cache_projects_its_token_once(tmp_path: Path) -> None:
    with_blocks(tmp_path / "small.tsr", "gpt_decode", STEP)
    after = tensat_dl.optimize(tensat_dl.load(str(tmp_path / "small.tsr"))).after.graph
    (x,) = (i for i in after.inputs if after.nodes[i].attr("name") == "x")
    assert [n.type.shape for n in after.nodes if n.op == "matmul" and n.inputs[0] == x] == [(1, 3 * 128)]


def test_gated_layer(tmp_path: Path) -> None:
    body = "input x : f32[5, 16]; output gated(x; inner = 24)"
    values, (found,) = run_blocks(tmp_path / "small.tsr", "gpt_block", body)
    gate, up, down = (values[f"gated_0_linear_{i}_w"] for i in range(3))
    x = values["x"]
    np.testing.assert_allclose(found, ((x @ gate) / (1 + np.exp(-(x @ gate))) * (x @ up)) @ down)
