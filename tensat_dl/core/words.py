"""Words of messages: numbers with their nouns, lists, and names that may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def plural(n: int, word: str, ending: str = "s") -> str:
    """The word as it follows the number n: ``rule`` or ``rules``."""
    return word if n == 1 else word + ending


def counted(n: int, word: str, ending: str = "s") -> str:
    """As in ``1 rule`` or ``1,024 rules``."""
    return f"{n:,} {plural(n, word, ending)}"


def series(items: Sequence[str], last: str = "and") -> str:
    """As in ``a, b and c``."""
    return f" {last} ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean `relu`?`` if a known name is near, else an empty string."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest, or an empty string if none is near."""
    if len(name) > 60:  # nobody's typing error, and slow to compare
        return ""
    candidates = list(known)
    other_case = [k for k in candidates if k != name and k.casefold() == name.casefold()]
    swapped = [k for k in candidates if k != name and sorted(k) == sorted(name)]
    near = other_case or swapped or get_close_matches(name, candidates, n=1, cutoff=0.6)
    return near[0] if near else ""


def first_line(e: BaseException) -> str:
    """The first line of an error's message that says something; the error's class if none does."""
    lines = (line.strip() for line in str(e).splitlines())
    return next((line[:300] for line in lines if line), type(e).__name__)
