"""Writes the generated parts of docs/language.md: ``python docs/generate.py`` (``--check`` only compares).

They are the functions that expressions may call, and the operators that ``rules/ops.tsr`` declares.

``python docs/generate.py --models FILE`` writes the README's table of models, from what
``python benchmarks/models.py --json FILE`` found.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tensat_dl import resources
from tensat_dl.lang import ast
from tensat_dl.lang.parser import parse
from tensat_dl.lang.source import Source, Span
from tensat_dl.ops.functions import FUNCTIONS
from tensat_dl.ops.table import AttrDecl, OpDecl, declare

LANGUAGE = Path(__file__).resolve().parent / "language.md"
README = LANGUAGE.parent.parent / "README.md"

#: What each function gives; its form is the program's own.
MEANING = {
    "rank": "the number of dimensions of a tensor",
    "dim": "dimension i of a tensor; -1 is the last one",
    "shape": "all dimensions of a tensor, as a list",
    "dtype": "the element type of a tensor",
    "len": "the number of elements of a list",
    "prod": "the product of the elements; 1 if there are none",
    "sum": "the sum of the elements; 0 if there are none",
    "max": "the largest",
    "min": "the smallest",
    "all": "whether every condition holds",
    "any": "whether some condition holds",
    "set": "the list with another value at one position",
    "broadcast": "the shape that two shapes are stretched to, aligned at their last dimension, as in NumPy",
    "is_float": "whether an element type is one of floating-point numbers",
    "is_number": "whether an element type is not `bool`",
    "holds": "whether an element type has a value: integer types have whole numbers, `bool` has 0 and 1",
    "distinct": "whether no two elements are equal",
}


def text(span: Span) -> str:
    return " ".join(span.text.split())


def functions() -> Iterator[str]:
    yield "| function | gives |"
    yield "|---|---|"
    for name, function in FUNCTIONS.items():
        yield f"| `{function.form}` | {MEANING[name]} |"


def operators() -> Iterator[str]:
    path = resources.rules() / "ops.tsr"
    source = Source("rules/ops.tsr", path.read_text(encoding="utf-8"))
    ops = [item for item in parse(source).items if isinstance(item, ast.Op)]
    sections = [(m.start(), m[1]) for m in re.finditer(r"^// -+ (.*?) -+$", source.text, re.MULTILINE)]
    for at, (start, title) in enumerate(sections):
        end = sections[at + 1][0] if at + 1 < len(sections) else len(source.text)
        yield f"### {title[0].upper()}{title[1:]}"
        yield ""
        for op in ops:
            if start <= op.span.start < end:
                yield from operator(declare(op))


def operator(decl: OpDecl) -> Iterator[str]:
    yield f"#### `{decl.signature}`"
    yield ""
    yield " ".join(decl.doc.split())
    yield ""
    for a in decl.attrs:
        presets = [f"`{p}`" for at, p, _ in decl.presets if at == a.name]
        named = f"; also {', '.join(presets)}" if presets else ""
        default = "" if a.default is None else f", by default `{value(a)}`"
        yield f"- `{a.name}`: {type_of(a)}{default}{named}"
    if decl.composition is not None:
        yield f"- is `{text(decl.composition.span)}`, in one kernel"
    for require in decl.requires:
        assert require.value is not None
        yield f"- requires `{text(require.value.span)}`: {require.message}"
    for name, expr in decl.lets:
        yield f"- where `{name}` is `{text(expr.span)}`"
    for i, shape in enumerate(decl.shapes):
        of = f" of `{decl.outputs[i]}`" if decl.outputs else ""
        yield f"- shape{of} `{text(shape.span)}`"
    if decl.flops is not None:
        yield f"- floating-point operations `{text(decl.flops.span)}`"
    if decl.view:
        yield "- a view: free where its consumers read through strides"
    yield ""


def type_of(a: AttrDecl) -> str:
    if a.choices:
        return " or ".join(f"`{c}`" for c in a.choices)
    return f"`int[{a.length}]`" if a.length is not None else f"`{a.type}`"


def value(a: AttrDecl) -> str:
    if isinstance(a.default, tuple):
        same = len(set(a.default)) == 1 and a.length is not None
        return str(a.default[0]) if same else str(list(a.default))
    return str(a.default).lower() if isinstance(a.default, bool) else f"{a.default}"


def models(reports: Path) -> Iterator[str]:
    yield "| model | operators | e-nodes | before | after | faster | gap |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for model, report in json.loads(reports.read_text(encoding="utf-8")).items():
        cost, found = report["cost"], report["extract"]
        gap = "0" if found["status"] == "optimal" else f"{found['gap']:.1%}"
        sizes = f"{sum(report['operators']['before'].values())} | {report['egraph']['nodes']:,}"
        costs = f"{cost['before']:.4f} | {cost['after']:.4f} | {cost['before'] / cost['after']:.2f}x"
        yield f"| {model} | {sizes} | {costs} | {gap} |"


def generated(document: str, parts: dict[str, Callable[[], Iterator[str]]]) -> str:
    """The document with the text between each pair of markers made anew."""
    for name, part in parts.items():
        lines = "\n".join(part()).rstrip()
        pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end of {name} -->)"
        document, count = re.subn(
            pattern, lambda m, lines=lines: f"{m[1]}\n{lines}\n\n{m[2]}", document, flags=re.DOTALL
        )
        assert count == 1, f"there are no markers for {name}"
    return document


def main() -> int:
    if "--models" in sys.argv:
        table = partial(models, Path(sys.argv[-1]))
        README.write_text(generated(README.read_text(encoding="utf-8"), {"models": table}), encoding="utf-8")
        return 0
    document = LANGUAGE.read_text(encoding="utf-8")
    new = generated(document, {"functions": functions, "operators": operators})
    if "--check" in sys.argv:
        return int(new != document)
    LANGUAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
