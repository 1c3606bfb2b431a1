"""The rules of packs, as axioms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.imports import find
from tensat_dl.lang.program import Program, load_program


def axioms_of(program: Program, packs: Sequence[str]) -> tuple[RewriteRule, ...]:
    """Those rules of a program that come from packs which it was loaded with, imports included, and the definitions
    of operators that are compositions."""
    paths = [find(pack, Path.cwd()) for pack in packs]
    names = {rule.name for path in paths if path is not None for rule in load_program(str(path)).rules}
    return tuple(rule for rule in program.rules if rule.name in names or _is_definition(rule, program))


def _is_definition(rule: RewriteRule, program: Program) -> bool:
    decl = program.ops.get(rule.name.removeprefix("un").removeprefix("fuse-"))
    return decl is not None and rule.span == decl.span  # a rule of a file may be called so, too
