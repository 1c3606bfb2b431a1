"""The HTML templates of this folder."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def template(name: str) -> Template:
    """A template by its file's name. All values are escaped; a missing value is an error."""
    environment = Environment(
        loader=PackageLoader("tensat_dl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
