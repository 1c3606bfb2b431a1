"""How values show themselves to people: as the text that the command line prints, and in notebooks."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """A value that `tensat_dl.report.views` can show.

    That module lies layers above, so it is imported by its name, and only when a value is shown.
    """

    __slots__ = ()

    def summary(self) -> str:
        """The text that the command line prints on a terminal of 80 columns, without colour."""
        return str(_views().summary(self))

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The same text with its colours, for notebooks."""
        return str(_views().html(self))


def _views() -> Any:
    return import_module("tensat_dl.report.views")
