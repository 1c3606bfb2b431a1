"""The engine is imported without the package around it, and works beside that package."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENGINE = "from tensat_dl.engine.egglog import Engine, bindings; from tensat_dl.engine.syntax import app"
USE = "print(type(Engine().run(app('print-size'))[0]).__name__)"


def printed(*lines: str) -> str:
    code = "\n".join(("import sys", ENGINE, *lines))
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    ).stdout


def test_the_package_is_not_imported() -> None:
    assert printed(USE, "print('egglog' in sys.modules)").split() == ["PrintAllFunctionsSize", "False"]


@pytest.mark.parametrize("first", [["import egglog", USE], [USE, "import egglog"]])
def test_the_package_has_the_same_engine(first: list[str]) -> None:
    """A script may use egglog itself, before or after."""
    same = "from egglog import bindings as theirs; print(theirs is bindings())"
    works = "print(egglog.EGraph().check(egglog.eq(egglog.i64(1)).to(1)))"
    assert printed(*first, same, works).split() == ["PrintAllFunctionsSize", "True", "None"]
