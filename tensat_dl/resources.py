"""Finds what lives at the top of the repository: the grammar, the rule library, the kernels and the examples.

A wheel and an editable install carry them as the packages ``tensat_dl_grammar``, ``tensat_dl_rules``,
``tensat_dl_kernels`` and ``tensat_dl_examples``; in a plain checkout they are the folders beside the package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_CHECKOUT = Path(__file__).resolve().parent.parent


#: The folders beside the package.
BESIDE = ("examples", "grammar", "kernels", "rules")


def folder(name: str) -> Path:
    """One of the folders beside the package. Raises FileNotFoundError."""
    checkout = _CHECKOUT / name
    if (_CHECKOUT / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    spec = find_spec(f"tensat_dl_{name}")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"tensat-dl is installed without its {name}/ folder")
    return Path(spec.origin).parent


def grammar() -> Path:
    """The language's grammar, ``grammar/tsr.lark``."""
    return folder("grammar") / "tsr.lark"


def rules() -> Path:
    """The folder of the operator table and the rule packs."""
    return folder("rules")


def examples() -> Path:
    """The folder of the example models."""
    return folder("examples")


def kernels(module: str) -> ModuleType:
    """A module of the kernels, such as ``registry``. Raises ImportError without torch or Triton."""
    if "tensat_dl_kernels" not in sys.modules:
        # The folder has another name than the package, so it is given the name here, wherever it lies.
        place = folder("kernels")
        spec = spec_from_file_location(
            "tensat_dl_kernels", place / "__init__.py", submodule_search_locations=[str(place)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tensat_dl_kernels"] = package = module_from_spec(spec)
        spec.loader.exec_module(package)
    return import_module(f"tensat_dl_kernels.{module}")
