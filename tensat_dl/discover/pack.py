"""Found rules as a file: names, an equation for each, the most useful first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from tensat_dl.discover.candidates import Tree
from tensat_dl.discover.generalise import General
from tensat_dl.discover.saving import Worth
from tensat_dl.discover.written import equation, formatted
from tensat_dl.verify.rules.verdict import Verdict


@dataclass(frozen=True, slots=True)
class FoundRule:
    """A rule with its name, the verdicts on what it declares, and how much it is worth."""

    name: str
    general: General
    verdicts: tuple[Verdict, ...]
    worth: Worth

    @property
    def text(self) -> str:
        """The rule in the language, with its equation as its comment."""
        return self.general.text(self.name, equation_of(self.general))

    @property
    def status(self) -> str:
        """``proved`` if everything that it declares is, else ``tested``."""
        return "proved" if all(v.status == "proved" for v in self.verdicts) else "tested"


def equation_of(g: General) -> str:
    """The equation of a rule, of a family for its function f."""
    return equation(g.member()[1].equation if g.family else g.equation, g.arrow)


def names(found: Sequence[General]) -> list[str]:
    """A name for each rule, of the operators of its left side, from the outside in; numbered where it is taken. That
    of a family leaves its function out, with which the names of its members end. Merges are called so."""
    taken: set[str] = set()
    out: list[str] = []
    for g in found:
        words = [w for w in _operators(g.equation.left) if w not in g.family] or ["of"]
        if g.arrow == "merge":  # of a concatenation
            words[0] = "merge"
        plain = "-".join(w.replace("_", "-") for w in words)
        numbered = chain((plain,), (f"{plain}-{k}" for k in count(2)))
        name, declared = next(
            (name, declared) for name in numbered if taken.isdisjoint(declared := _declared(name, g))
        )
        taken |= declared
        out.append(name)
    return out


def _declared(name: str, g: General) -> set[str]:
    """The names of a rule and, for a family, of its members."""
    return {name, *(f"{name}-{f}" for f in g.family)}


def _operators(t: Tree) -> list[str]:
    """The operators from the outside in, each once."""
    if not t.args:
        return []
    words = [t.op, *(w for a in t.args for w in _operators(a))]
    return list(dict.fromkeys(words))


def pack_text(rules: Sequence[FoundRule], header: Sequence[str], imports: Sequence[str]) -> str:
    """The file."""
    lines = [f"// {line}".rstrip() for line in header]
    comments = "\n".join(lines) + "\n\n" if lines else ""
    imported = "".join(f'import "{path}"\n' for path in imports)
    body = "\n".join(rule.text for rule in rules)
    return formatted(comments + imported + ("\n" if imported else "") + body)
