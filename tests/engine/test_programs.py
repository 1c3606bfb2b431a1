"""Whole programs: valid for the engine, at every rank, for every rule."""

from __future__ import annotations

import pytest
from egglog.bindings import EGraph

from tensat_dl.core.graph import GraphBuilder, TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile import compile_rule, variants_of
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.declarations import (
    FACTORS,
    HEADER,
    VARYING,
    constructor_commands,
    factors_commands,
    varying_commands,
)
from tensat_dl.engine.egglog import Engine
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.listing import listing
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.members import MemberTables
from tensat_dl.engine.naming import Store
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.syntax import Command, Lit, app, by_id, written
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.groups import listed
from tensat_dl.rewrite.source import Forms
from tensat_dl.verify.rules.rule_types import check_rule_types
from tests.explore.graphs import graph_in, graph_of, library, program_of, rules_named

#: Rules have more variants at higher ranks, no other commands.
LOW = Forms((0, 1, 2, 3, 4))


def run(*commands: Command) -> list[object]:
    """What egglog says to a whole program."""
    engine = Engine()
    try:
        return engine.run(*commands)
    finally:
        engine.close()


def compiled(
    rule: RewriteRule, schema: Schema, forms: Forms, tables: MemberTables | None = None
) -> CompiledRule | None:
    return compile_rule(rule, schema, variants_of(rule, schema, forms), {} if tables is None else tables)


def constructors(schema: Schema) -> list[Command]:
    return [command for c in schema.constructors() for command in constructor_commands(c, schema.ops)]


@pytest.mark.thorough
@pytest.mark.parametrize("forms", [LOW, Forms((2, 4))])
def test_the_text_of_every_rule_is_valid(forms: Forms) -> None:
    ops = library().ops
    schema = Schema(ops)
    # Some rules are for lists of up to three, one is for longer ones.
    forms_of = [[listed(r, n) for n in (3, 4)] if r.takes_lists else [r] for r in library().rules]
    tables: MemberTables = {}
    found = [[compiled(r, schema, forms, tables) for r in same] for same in forms_of]
    assert forms is not LOW or all(any(same) for same in found)
    made = schema.constructors()
    counted = [command for c in made for command in factors_commands(c, ops)]
    counted += [command for c in made for command in varying_commands(c, ops)]
    commands = [command for same in found for c in same if c is not None for command in c.commands]
    run(HEADER, FACTORS, VARYING, *constructors(schema), *counted, *commands)


def test_group_rules_have_no_type_problem() -> None:
    groups = [r for r in library().rules if r.kind == "group"]
    assert groups
    assert [d for r in groups for d in check_rule_types(r, library().ops)] == []


SIBLINGS = """
  input x : f32[4, 8]
  weight u : f32[8, 2]
  weight v : f32[8, 3]
  output relu(x @ u), x @ v
"""


def test_a_listing_runs_as_it_stands() -> None:
    graph = graph_of(SIBLINGS)
    rules = rules_named("pair-matmul-left")
    text = written(listing(EgglogProgram(library().ops, rules, graph), graph))
    egraph = EGraph()
    outputs = egraph.run_program(*egraph.parse_program(text))
    sizes = dict(outputs[-1].sizes)
    # x u and x v are parts of x [u v]; its mirror image x [v u] is not looked for
    assert sizes["Concat2"] == 1
    assert sizes["Slice"] == 2
    assert sizes["Weight"] == 2


@pytest.mark.parametrize(
    "graph",
    [
        "input x : f32[2, 3]\n weight eps : f32[]\n output x * 0.00001 + eps, x * -1.5, x * 1000000000000000000.0",
        "input x : f32[1, 2, 6, 6]\n weight w : f32[4, 2, 3, 3]\n output conv2d(x, w; pads = same, act = relu)",
        "input x : i64[2, 3]\n output transpose(x; perm = [1, 0]), reshape(x; shape = [6]), relu(x)",
    ],
)
def test_listings_have_the_types_of_the_graph(graph: str) -> None:
    """Type rules alone, without loaded types, give every node the type that the checker gives it."""
    g = graph_of(graph)
    program = EgglogProgram(library().ops, (), g)
    engine = Engine()
    engine.run(*listing(program, g))
    frozen = engine.freeze()
    decode, number = frozen.decoder("Ints"), frozen.decoder("i64")
    types = {r.inputs[0]: decode(r.output)[1:] for r in frozen.rows("type_of")}
    found = {number(r.inputs[0]): types[r.output] for r in frozen.rows("by_id")}
    engine.close()
    assert found == {i: n.type.shape for i, n in enumerate(g.nodes)}


def test_nothing_is_left_of_a_graph() -> None:
    """Neither of its e-nodes and what rules made of them, nor of one that rules do not see, nor of a wide one."""
    operands = ", ".join(["x"] * 70)
    g = graph_of(f"input x : f32[2, 3]\n output relu(relu(x)), concat({operands}; axis = 0), x * (x + x)")
    rules = rules_named("relu-relu")
    explorer = Explorer(g, library().ops, rules, Limits())
    assert [step.iteration.nodes for step in explorer.run()][-1] > 4
    store = explorer.store
    store.engine.run(app("subsume", app("Ewadd", by_id(Lit(0)), by_id(Lit(0)))))
    for graph in (g, g):
        before = rows_by_table(store.engine)
        assert all(before[name] for name in ("Relu", "Ewadd", "Concat70")), before
        store.clear()
        assert not any(rows_by_table(store.engine).values())
        store.load_graph(graph)


def test_a_deep_graph_is_loaded_at_once() -> None:
    """A node does not wait for its operands: each step of the engine would plan the rules of long lists anew."""
    lines = [f"x{i + 1} = relu(concat(x{i}, y; axis = 0))" for i in range(30)]
    g = graph_of("\n".join(["input x0 : f32[1, 4]\n input y : f32[1, 4]", *lines, "output x30"]))
    program = EgglogProgram(library().ops, (), g)
    store = Store(Engine(), program)
    nodes = [(i, n.op, n.attrs, n.inputs, "") for i, n in enumerate(g.nodes)]
    store.load_nodes(nodes, run=False)
    store.engine.matches("load")
    loaded = rows_by_table(store.engine)
    store.engine.close()
    assert loaded["Relu"] == loaded["Concat2"] == 30
    assert loaded["by_id"] == len(g.nodes)


def rows_by_table(engine: Engine) -> dict[str, int]:
    (printed,) = engine.run(app("print-size"))
    return dict(printed.sizes)


NAMES = (
    "plain",
    " led by a space",
    "trailed by one ",
    "a\tb",
    "a\nb",
    'quo"te',
    "back\\slash",
    "héé",
    "12",
    "1e5",
    "",
    "\\n",
)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_tensor_survives_the_engine(name: str) -> None:
    t = TensorType("f32", (2,))
    builder = GraphBuilder("g")
    x = builder.add("input", (), (("name", name), ("dtype", "f32"), ("shape", (2,))), (t,))
    graph = builder.finish([("y", builder.add("relu", (x,), (), (t,)))])
    (step,) = Explorer(graph, library().ops, (), Limits()).run()
    attrs = [dict(a) for a, op in zip(step.egraph.attrs, step.egraph.op, strict=True) if op == "input"]
    assert attrs == [{"name": name, "dtype": "f32", "shape": (2,)}]


def test_only_rules_whose_operators_occur_are_compiled() -> None:
    """Those of the pack "xla" replace a slice by other operators."""
    graph = graph_of("input x : f32[2, 3]\n output relu(x)")
    rules = [r for r in library().rules if not r.name.startswith("xla-")]
    program = EgglogProgram(library().ops, rules, graph)
    program.everything()
    assert program.current()
    for rule in program.current():
        ops = {n.op for n in rule.rule.source.nodes}
        assert ops <= {"relu", "concat", "slice"}, rule.name


def test_conditions_that_cannot_be_compiled_are_located() -> None:
    program = program_of("rule r { matmul(x, y) where weight(x) or weight(y) => relu(matmul(x, y)) }")
    (rule,) = (r for r in program.rules if r.name == "r")
    (problem,) = check_rule_types(rule, program.ops)
    assert "can't be compiled" in problem.message


def test_operators_of_a_graph_need_no_rules() -> None:
    program = program_of(
        "opaque op both(x: tensor) -> (a, b) { shape a = shape(x); shape b = [dim(x, 0)] }\n"
        "graph g { input x : f32[2, 3]\n (a, b) = both(x)\n output relu(a), relu(b) }"
    )
    graph = graph_in(program)
    run(*listing(EgglogProgram(program.ops, (), graph), graph))


def test_members_of_a_group_know_an_axis_that_varies_by_rank() -> None:
    program = program_of(
        "rule joined { each i: y[i] = concat(x, w[i]; axis = a) => c = concat(x, w[..]; axis = a)\n"
        "y[..] = split(c; axis = a, sizes = [dim(w[i], a) for i in 0..len(w)]) }"
    )
    (rule,) = (r for r in program.rules if r.name == "joined")
    schema = Schema(program.ops)
    found = compiled(rule, schema, Forms((1, 2)))
    assert found is not None
    run(HEADER, *constructors(schema), *found.commands)


ORDERED = """
rule ordered {{
  a = matmul(x, u)
  b = matmul(x, v)
  {where}
  =>
  m = matmul(x, concat(u, v; axis = 1))
  (a, b) = split(m; axis = 1, sizes = [dim(u, 1), dim(v, 1)])
}}
"""


@pytest.mark.parametrize(
    ("where", "one_of_two"),
    [
        ("", True),
        ("where dim(u, 1) == dim(v, 1)", True),
        ("where dim(u, 1) <= dim(v, 1)", False),
        ("where weight(u)", False),
        ("where weight(u), weight(v)", True),
    ],
)
def test_mirror_images_are_left_out_where_conditions_are_symmetric(where: str, one_of_two: bool) -> None:
    program = program_of(ORDERED.format(where=where))
    (rule,) = (r for r in program.rules if r.name == "ordered")
    found = compiled(rule, Schema(program.ops), Forms((2,)))
    assert found is not None
    text = written(found.commands)
    assert ("(<= ?a.id ?b.id)" in text) == one_of_two
    # The join compares columns: all that concerns one pattern alone is done for its own matches.
    find = text[text.rindex("(rule ") :]
    assert "(type_of" not in find
    assert "Matmul" not in find


@pytest.mark.thorough
def test_ranks_are_ruled_out_only_where_nothing_type_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators rule out ranks by their constraints on tensors alone, before anything else is looked at."""
    rules = [r for r in library().rules if r.index is None]
    fast = [Schema(library().ops).variants(r, Forms((0, 1, 2, 4))) for r in rules]
    monkeypatch.setattr(Inference, "possible", lambda self, op, ranks: True)
    slow = [Schema(library().ops).variants(r, Forms((0, 1, 2, 4))) for r in rules]
    assert fast == slow


def test_a_rule_with_many_operands_can_have_both_forms() -> None:
    """All matches at once, and those that were selected: one engine gets both, where an e-graph has grown large."""
    text = "rule many { concat(tanh(x), exp(x), tanh(y), exp(y); axis = k) => concat(x, y; axis = k) }"
    program = program_of(text)
    (rule,) = (r for r in program.rules if r.name == "many")
    schema = Schema(program.ops)
    found = variants_of(rule, schema, Forms((2,)))
    tables: MemberTables = {}
    forms = [compile_rule(rule, schema, found, tables, filtered=filtered) for filtered in (False, True)]
    assert all(form is not None and form.members for form in forms)
    commands = [command for form in forms if form is not None for command in form.commands]
    run(HEADER, *constructors(schema), *commands)


def test_lists_of_all_lengths_share_their_members() -> None:
    """For longer lists only the e-node itself has a further relation."""
    program = program_of(
        "rule many { concat(tanh(xs[i]) for i in 0..len(xs); axis = k) => tanh(concat(xs[..]; axis = k)) }"
    )
    (rule,) = (r for r in program.rules if r.name == "many")
    schema, tables = Schema(program.ops), MemberTables()
    declared = []
    for n in (4, 5, 6):
        one = listed(rule, n)
        found = compile_rule(one, schema, variants_of(one, schema, Forms((2,))), tables)
        assert found is not None
        declared.append(sum("(relation many" in str(c) for c in found.commands))
    first, *others = declared
    assert others == [first - 1, first - 1]
