"""The HTML templates of this folder."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


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


def drawing(name: str, *values: object) -> Markup:
    """The drawing that a macro of `drawings.html` makes of these values."""
    macro = getattr(template("drawings.html").module, name)
    return Markup(macro(*values))
