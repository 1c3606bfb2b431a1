"""Names for the nodes of a graph: unique identifiers that the language reads back, the same in every run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tensat_dl.core.graph import DTYPES, Graph, Node, splits
from tensat_dl.lang.tokens import ITEMS, RESERVED, STATEMENTS
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.values import FUNCTIONS

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Words that start an item or a statement, or have a meaning inside one: legal as names, but hard to read.
KEYWORDS = frozenset({"split", *ITEMS, *(word for words in STATEMENTS.values() for word in words)})

#: A derived name that would get longer than this gives way to one that is numbered.
LONGEST = 30

_VERBS = {
    "transpose": "transposed",
    "reshape": "reshaped",
    "enlarge": "enlarged",
    "merge": "merged",
    "slice": "part",
}


def forbidden(ops: OpTable) -> frozenset[str]:
    """Names that no tensor may have: a tensor named ``relu`` would hide the choice in ``act = relu``."""
    decls = ops.values()
    choices = {c for d in decls for a in d.attrs for c in a.choices}
    presets = {p for d in decls for _, p, _ in d.presets}
    return RESERVED | KEYWORDS | choices | presets | set(ops) | set(FUNCTIONS) | set(DTYPES)


def identifier(text: str) -> str:
    """The text as an identifier: every other character becomes ``_``."""
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", text)).rstrip("_") or "t"
    return name if name[0].isalpha() or name[0] == "_" else f"t{name}"


class Names:
    """Hands out identifiers, each once, none of them a forbidden word."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def free(self, name: str) -> bool:
        return name not in self._taken and IDENTIFIER.fullmatch(name) is not None

    def claim(self, name: str) -> str:
        """This identifier, which is free."""
        self._taken.add(name)
        return name

    def unique(self, wish: str, numbered: bool = False) -> str:
        """The wish as an identifier; with a number if it is taken, or if ``numbered``."""
        return self.counted(identifier(wish), numbered)

    def counted(self, base: str, numbered: bool = False) -> str:
        """A name as it is; with a number behind it if it is taken, or if ``numbered``."""
        name, i = base, self._next.get(base, 0)  # what was taken once stays so
        while numbered or name in self._taken:
            i += 1
            name, numbered = f"{base}_{i}", False
        self._next[base] = i
        return self.claim(name)


def node_names(graph: Graph, ops: OpTable, taken: Iterable[str] = ()) -> list[str]:
    """A name for each node, none of them ``taken``.

    Inputs and weights keep their own names as far as the language allows. Then come the names of outputs,
    names from the source, and names made from the operator and what it is applied to.
    """
    names = Names(forbidden(ops).union(taken))
    chosen = [""] * len(graph.nodes)
    leaves = [(i, str(n.attr("name"))) for i, n in enumerate(graph.nodes) if n.op in ("input", "weight")]
    outputs = [(i, name) for name, i in graph.outputs]
    named = [(i, node.name) for i, node in enumerate(graph.nodes) if node.name]
    wishes = (*leaves, *outputs, *named)
    for i, name in wishes:  # a name that is given comes before one that is made of another
        if not chosen[i] and names.free(name):
            chosen[i] = names.claim(name)
    for i, name in wishes:
        if not chosen[i]:
            chosen[i] = names.unique(name)
    telling = [bool(name) for name in chosen]
    constant = graph.weights_only()
    parts = splits(graph)
    in_text = sorted(range(len(graph.nodes)), key=lambda i: not constant[i])
    for first in in_text:
        for i in parts.get(first, (first,)):  # the parts of a split are numbered in their order
            if chosen[i]:
                continue
            node = graph.nodes[i]
            known = node.op == "proj" or all(telling[j] for j in node.inputs)
            derived = _derived(node, [chosen[j] for j in node.inputs], constant[i]) if known else ""
            chosen[i] = names.unique(derived or node.op, numbered=not derived)
            telling[i] = bool(derived)
    return chosen


def _derived(node: Node, inputs: list[str], constant: bool) -> str:
    """A telling name, or "" if the operator's name with a number is all there is to say."""
    name = ""
    if node.op == "proj":
        name = f"{inputs[0]}_{node.attr('index')}"
    elif node.op == "fill":
        words = {0.0: "zeros", 1.0: "ones"} if node.type.rank else {0.0: "zero", 1.0: "one"}
        name = words.get(float(node.attr("value")), "constant")  # type: ignore[arg-type]
    elif constant and node.op == "concat":
        name = _joined(inputs)
    elif constant and len(inputs) == 1:
        name = f"{inputs[0]}_{_VERBS.get(node.op, node.op)}"
    return name if len(name) <= LONGEST else ""


def _joined(parts: list[str]) -> str:
    """``layer_3_wq`` and ``layer_3_wk`` become ``layer_3_wq_wk``."""
    words = [p.split("_") for p in parts]
    common = 0
    while all(len(w) > common + 1 and w[common] == words[0][common] for w in words):
        common += 1
    return "_".join(words[0][:common] + [word for w in words for word in w[common:]])
