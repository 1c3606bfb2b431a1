"""A file of S-expression rules as a .tsr file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath

from tensat_dl.core.diagnostics import Diagnostic, Source, Span, TsrError, collected
from tensat_dl.core.words import did_you_mean
from tensat_dl.lang import ast
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.rules import resolve_rule
from tensat_dl.lang.sexpr import taso_terms as taso
from tensat_dl.lang.sexpr.reader import SLine, read_lines
from tensat_dl.lang.sexpr.taso_terms import Apply, Parameter, SVariable, Term
from tensat_dl.lang.sexpr.translate import Translation
from tensat_dl.lang.tokens import RESERVED, printable
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.values import FUNCTIONS


@dataclass(frozen=True, slots=True)
class ImportedRules:
    """A .tsr file's text, its number of rules, and the number of rules that were left out: ``notes`` are about those
    that repeat others, ``problems`` about those that can't be translated."""

    text: str
    rules: int
    left_out: int
    notes: tuple[Diagnostic, ...]
    problems: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule of one line, or of two lines of a multi-pattern rule."""

    lines: tuple[SLine, ...]
    sources: tuple[Term, ...]
    targets: tuple[Term, ...]
    paddings: tuple[str, ...]  #: variables for padding modes
    span: Span


def import_rules(source: Source, multi: bool, ops: OpTable) -> ImportedRules:
    """Translates every line, or with ``multi`` every two lines, to a rule of the .tsr language.

    A rule is called by its file and line. One that repeats another, but for names of variables, is left out with a
    note, and so is one that can't be translated, with everything that is wrong in it. Raises `TsrError` if no rule is
    left, or if the file ends with half a rule.
    """
    lines, problems = read_lines(source)
    count = 2 if multi else 1
    groups = [tuple(lines[i : i + count]) for i in range(0, len(lines), count)]
    if multi and len(lines) % 2:  # any line may be the one that lacks its partner
        if lines[-1] is not None:
            hint = "with --multi two lines are one rule"
            problems.append(Diagnostic("the file ends with half a rule", lines[-1].span, hint))
        groups = []
    if not lines:
        problems.append(Diagnostic("the file has no rules", None, path=source.path))
    taken = _taken(ops)
    items: list[ast.Rule] = []
    notes: list[Diagnostic] = []
    first: dict[object, _Rule] = {}
    imported = 0
    for group in groups:
        readable = tuple(line for line in group if line is not None)
        if len(readable) < count:
            continue
        with collected(problems):
            rule = _rule(readable, multi)
            same = first.setdefault(_key(rule), rule)
            if same is not rule:
                message = f"this rule repeats line {same.lines[0].number}: left out"
                notes.append(Diagnostic(message, rule.span, severity="warning"))
                continue
            made = list(_translated(rule, source, taken))
            for item in made:
                resolve_rule(item, ops)
            items += made
            imported += 1
    problems.sort(key=lambda d: d.span.start if d.span else 0)
    if not items:
        raise TsrError(problems)
    header = f"// Imported from {printable(PurePath(source.path).name)}.\n\n"
    text = header + print_file(ast.File(tuple(items), (), span=ast.NOWHERE))
    left_out = -(-len(lines) // count) - imported
    return ImportedRules(text, len(items), left_out, tuple(notes), tuple(problems))


# ---- reading --------------------------------------------------------------------------------------------


def _rule(lines: tuple[SLine, ...], multi: bool) -> _Rule:
    """The rule that lines stand for. Raises `TsrError` with every problem in them."""
    terms = taso.STerms()
    sides: tuple[list[Term], list[Term]] = ([], [])
    problems: list[Diagnostic] = []
    for line in lines:
        for side, tree in zip(sides, (line.left, line.right), strict=True):
            with collected(problems):
                side.append(terms.term(tree))
    problems = problems or list(_sides(*sides, multi))
    if problems:
        raise TsrError(problems)
    paddings = tuple(name for name, kind in terms.kinds.items() if kind == "padding")
    return _Rule(lines, tuple(sides[0]), tuple(sides[1]), paddings, lines[0].span.to(lines[-1].span))


def _sides(sources: Sequence[Term], targets: Sequence[Term], multi: bool) -> Iterator[Diagnostic]:
    """The problems of a rule as a whole."""
    bound = {v.name for source in sources for v in taso.variables(source)}
    for i, source in enumerate(sources):
        if isinstance(source, SVariable):
            yield Diagnostic("the left side is a lone variable", source.span, "it would match every tensor")
        elif source in sources[:i]:
            yield Diagnostic("both lines have the same left side", source.span, "one of them is enough")
    for term in (*sources, *targets):
        if isinstance(term, Apply) and term.op == "split":
            yield Diagnostic("`split` gives two tensors", term.span, "take one: `(split_0 (split ..))`")
    for target in targets:
        for v in taso.variables(target):
            if v.name not in bound:
                hint = did_you_mean(v.name, bound).replace("`", "`?", 1)
                if not multi and any(taso.is_apply(t, "split") for t in taso.subterms(target)):
                    hint = "where two lines make one multi-pattern rule, import them with --multi"
                yield Diagnostic(f"`?{v.name}` does not stand on the left side", v.span, hint)
                bound.add(v.name)  # said once


def _key(rule: _Rule) -> object:
    """The same for rules that differ in the names of their variables alone."""
    numbers: dict[str, str] = {}
    for term in (*rule.sources, *rule.targets):
        for v in taso.variables(term):
            numbers.setdefault(v.name, str(len(numbers)))
    renamed: dict[str, Parameter] = {name: SVariable(n, rule.span) for name, n in numbers.items()}
    return tuple(_substituted(term, renamed) for term in (*rule.sources, *rule.targets))


def _substituted(term: Term, values: Mapping[str, Parameter]) -> Term:
    """A term with values instead of variables."""
    if isinstance(term, SVariable):
        value = values.get(term.name, term)
        assert isinstance(value, SVariable)
        return value
    parameters = tuple(values.get(p.name, p) if isinstance(p, SVariable) else p for p in term.parameters)
    operands = tuple(_substituted(t, values) for t in term.operands)
    return replace(term, parameters=parameters, operands=operands)


# ---- writing --------------------------------------------------------------------------------------------


def _translated(rule: _Rule, source: Source, taken: frozenset[str]) -> Iterator[ast.Rule]:
    """The rule, or one for each choice of the modes that its padding variables stand for."""
    names: dict[str, str] = {}
    for term in (*rule.sources, *rule.targets):
        for v in taso.variables(term):
            if v.name not in names and v.name not in rule.paddings:
                names[v.name] = _name(v.name, taken | set(names.values()))
    for modes in product(taso.PADDINGS, repeat=len(rule.paddings)):
        chosen: dict[str, Parameter] = dict(zip(rule.paddings, modes, strict=True))
        sources, targets = ([_substituted(t, chosen) for t in side] for side in (rule.sources, rule.targets))
        suffix = "".join(f"-{taso.PADDINGS[mode]}" for mode in modes)
        name = f"{_stem(source.path)}-{rule.lines[0].number}{suffix}"
        doc = "\n".join(printable(line.text) for line in rule.lines)
        yield Translation(sources, targets, names, taken).rule(name, doc, rule.span)


def _name(variable: str, taken: frozenset[str]) -> str:
    """A variable's name in the language: `?input_3` is x3."""
    name = re.sub(r"^input_(?=\d)", "x", variable)
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", name):
        name = f"x{name}"
    while name in taken:
        name += "_"
    return name


def _taken(ops: OpTable) -> frozenset[str]:
    """Names that mean something else in a rule."""
    words = {w for op in ops.values() for a in op.attrs for w in (*a.choices, a.name)}
    return frozenset({*RESERVED, *FUNCTIONS, *ops, *words, "split", "same", "valid", "weight", "value"})


def _stem(path: str) -> str:
    """The first part of the names of a file's rules, before the line number."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", PurePath(path).stem).strip("-")
    return stem if re.match(r"[A-Za-z]", stem) else f"rule-{stem}".strip("-")
