"""A table is the same object for as long as its rows stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensat_dl.engine.egglog import Engine, Frozen, FrozenTable
from tensat_dl.engine.syntax import Text

PROGRAM = """
(sort T)
(sort Pair)
(constructor leaf (i64) T)
(constructor both (T T) Pair)
(function name (T) String :merge new)
(both (leaf 1) (leaf 2))
(both (leaf 1) (leaf 3))
(set (name (leaf 1)) "one")
"""


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    found.run(*map(Text, PROGRAM.split("\n")[1:-1]))
    yield found
    found.close()


def table(frozen: Frozen, name: str) -> FrozenTable:
    found = frozen.table(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ('(set (name (leaf 1)) "one")', set()),
        ("(both (leaf 1) (leaf 2))", set()),
        ("(leaf 4)", {"leaf"}),
        ('(set (name (leaf 1)) "uno")', {"name"}),
        ('(set (name (leaf 2)) "two")', {"name"}),
        ("(union (leaf 2) (leaf 3))", {"leaf", "both"}),
        ("(delete (both (leaf 1) (leaf 2)))", {"both"}),
        ("(subsume (both (leaf 1) (leaf 2)))", {"both"}),
    ],
)
def test_what_was_made_of_a_table_is_made_again_if_it_has_changed(
    engine: Engine, command: str, changed: set[str]
) -> None:
    names = {"leaf", "both", "name"}
    before = engine.freeze()
    for name in names:
        table(before, name).made("rows", list)
    engine.run(Text(command))
    after = engine.freeze()
    made: list[str] = []

    def again(name: str) -> None:
        table(after, name).made("rows", lambda rows: made.append(name))

    for name in names:
        again(name)
        again(name)
    assert sorted(made) == sorted(changed)


def test_what_was_made_of_two_tables_is_made_again_if_either_has_changed(engine: Engine) -> None:
    made = []
    for command in ("(leaf 1)", "(leaf 4)", "(leaf 4)", "(both (leaf 1) (leaf 4))"):
        engine.run(Text(command))
        frozen = engine.freeze()
        made.append(table(frozen, "both").made("pairs", lambda rows: object(), table(frozen, "leaf")))
    assert [made.index(x) for x in made] == [0, 1, 1, 3]


def test_a_frozen_table_keeps_its_rows(engine: Engine) -> None:
    before = engine.freeze()
    engine.run(Text("(both (leaf 2) (leaf 3))"))
    assert [len(f.rows("both")) for f in (before, engine.freeze())] == [2, 3]
    assert before.table("nothing") is None
    assert before.rows("nothing") == ()
