"""Writes the generated parts of the documents: ``python docs/generate.py`` (``--check`` only compares).

docs/language.md has a table of the functions that expressions may call, and a list of the operators that
``rules/ops.tsr`` declares. docs/costs.md has a table of the devices. README.md, docs/results.md and docs/scale.md
have tables of benchmark results (``tensat-dl bench NAME --json benchmarks/NAME.json``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import tables

from tensat_dl import resources
from tensat_dl.core.diagnostics import Source, Span
from tensat_dl.cost import device_names, load_device
from tensat_dl.lang import ast
from tensat_dl.lang.declare import declare
from tensat_dl.lang.parser import parse
from tensat_dl.ops.table import AttrDecl, OpDecl
from tensat_dl.ops.values import FUNCTIONS

LANGUAGE = Path(__file__).resolve().parent / "language.md"
README = LANGUAGE.parent.parent / "README.md"

#: The result of each function; the form of its call comes from the program.
MEANING = {
    "rank": "the number of dimensions of a tensor",
    "dim": "dimension i of a tensor; -1 is the last one",
    "shape": "all dimensions of a tensor, as a list",
    "dtype": "the element type of a tensor",
    "len": "the number of elements of a list",
    "prod": "the product of the elements; 1 if there are none",
    "sum": "the sum of the elements; 0 if there are none",
    "max": "the largest element",
    "min": "the smallest element",
    "all": "whether every condition holds",
    "any": "whether some condition holds",
    "set": "the list, with another value at one position",
    "broadcast": "the shape to which two shapes broadcast, aligned at their last dimension, as in NumPy",
    "is_float": "whether an element type is a floating-point type",
    "is_number": "whether an element type is not `bool`",
    "holds": "whether an element type can hold a number: integer types, whole numbers in range; `bool`, 0 and 1",
    "distinct": "whether no two elements are equal",
}


def text(span: Span) -> str:
    return " ".join(span.text.split())


def functions() -> Iterator[str]:
    yield "| function | gives |"
    yield "|---|---|"
    for name, function in FUNCTIONS.items():
        yield f"| `{function.form}` | {MEANING[name]} |"


def devices() -> Iterator[str]:
    yield "| device | | f32 | f16 | bf16 | f64 | i8 | i32 | GB/s | launch | views |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
    for device in map(load_device, device_names()):
        peaks = (f"{device.flops[t] / 1e12:g}" for t in ("f32", "f16", "bf16", "f64", "i8", "i32"))
        views = "strided" if device.strided_views else "copied"
        cells = [device.name, device.title.partition(":")[0], *peaks, f"{device.bandwidth / 1e9:,.10g}"]
        yield f"| {' | '.join(cells)} | {device.launch_ms * 1000:g} µs | {views} |"


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
        yield f"- computes `{text(decl.composition.span)}`, in one kernel"
    for require in decl.requires:
        assert require.value is not None
        yield f"- requires `{text(require.value.span)}`: {require.message}"
    for name, expr in decl.lets:
        yield f"- where `{name}` is `{text(expr.span)}`"
    for i, shape in enumerate(decl.shapes):
        of = f" of `{decl.outputs[i]}`" if decl.outputs else ""
        yield f"- shape{of}: `{text(shape.span)}`"
    if decl.flops is not None:
        yield f"- floating-point operations: `{text(decl.flops.span)}`"
    if decl.view:
        yield "- a view: free where its consumers read through strides"
    if decl.commutative:
        yield "- commutative: patterns match its operands in either order"
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


def generated(document: str, parts: dict[str, Callable[[], Iterator[str]]]) -> str:
    """The document with new text between each pair of markers."""
    for name, part in parts.items():
        lines = "\n".join(part()).rstrip()
        pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end of {name} -->)"
        document, count = re.subn(
            pattern, lambda m, lines=lines: f"{m[1]}\n{lines}\n\n{m[2]}", document, flags=re.DOTALL
        )
        assert count == 1, f"{count} pairs of markers for {name}, expected one"
    return document


def main() -> int:
    documents: dict[Path, dict[str, Callable[[], Iterator[str]]]] = {
        LANGUAGE: {"functions": functions, "operators": operators},
        README: {"models": tables.models},
        LANGUAGE.parent / "costs.md": {"devices": devices},
        LANGUAGE.parent / "results.md": {
            "join": tables.join,
            "cycles": tables.cycles,
            "k-multi": tables.k_multi,
            "extraction": tables.extraction,
            "extraction-long": partial(tables.extraction, "extraction-long"),
            "depth": tables.depth,
            "onnx": tables.onnx,
            "onnx-second": partial(tables.onnx, "onnx-second"),
            "torch": tables.torch,
            "torch-two": partial(tables.torch, "torch-two"),
            "check": tables.check,
        },
    }
    documents[LANGUAGE.parent / "scale.md"] = {"scale": tables.scale, "scale-simulated": tables.simulated}
    outdated = False
    for path, parts in documents.items():
        document = path.read_text(encoding="utf-8")
        new = generated(document, parts)
        outdated = outdated or new != document
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
    return int(outdated and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
