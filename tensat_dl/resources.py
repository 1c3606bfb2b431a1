"""Finds the files that live at the top of the repository: the grammar, the rule library and the examples.

A wheel and an editable install carry them as the packages ``tensat_dl_grammar``, ``tensat_dl_rules`` and
``tensat_dl_examples``; in a plain checkout they are the folders beside the package.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent


def _folder(name: str) -> Path:
    checkout = _CHECKOUT / name
    if (_CHECKOUT / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    spec = find_spec(f"tensat_dl_{name}")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"tensat-dl is installed without its {name}/ folder")
    return Path(spec.origin).parent


def grammar() -> Path:
    """The language's grammar, ``grammar/tsr.lark``."""
    return _folder("grammar") / "tsr.lark"


def rules() -> Path:
    """The folder of the operator table and the rule packs."""
    return _folder("rules")


def examples() -> Path:
    """The folder of the example models."""
    return _folder("examples")
