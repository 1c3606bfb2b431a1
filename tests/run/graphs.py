"""Graphs for searches: random ones, and a recurrent cell."""

from __future__ import annotations

from itertools import product
from random import Random

#: Widths that random graphs have; products of like widths can be merged.
WIDTHS = (64, 256)
UNARY = ("relu", "tanh", "sigmoid", "gelu", "exp")
BINARY = ("+", "*", "-")


def drawn(seed: int) -> str:
    """The body of a random graph of products with weights, elementwise operators, concatenations and slices. Values
    are read several times, and several weights meet one value, so that there are groups of groups."""
    rng = Random(seed)
    rows = rng.choice((1, 8, 64))
    lines = [f"input x{i} : f32[{rows}, {rng.choice(WIDTHS)}]" for i in range(rng.randint(1, 3))]
    width = {f"x{i}": int(line.rsplit(" ", 1)[1][:-1]) for i, line in enumerate(lines)}
    bias: dict[int, str] = {}
    for w in WIDTHS:
        bias[w] = f"b{w}"
        lines.append(f"weight b{w} : f32[{w}]")
    weights: dict[tuple[int, int], list[str]] = {}
    values = list(width)
    if rng.random() < 0.5:  # several rows times several weights: products to merge both ways
        inputs, shared = range(rng.randint(2, 3)), range(rng.randint(2, 3))
        lines += [f"input r{i} : f32[{rows}, 64]" for i in inputs]
        lines += [f"weight v{j} : f32[64, 64]" for j in shared]
        for i, j in product(inputs, shared):
            term = f"{rng.choice(UNARY)}(r{i} @ v{j})" if rng.random() < 0.5 else f"r{i} @ v{j}"
            lines.append(f"g{i}{j} = {term}")
            values.append(f"g{i}{j}")
            width[f"g{i}{j}"] = 64
    for number in range(rng.randint(4, 12)):
        # Early values are read more often than late ones: siblings, not only chains.
        a, b = (rng.choice(values[: rng.randint(1, len(values))]) for _ in range(2))
        name = f"t{number}"
        alike = [v for v in values if width[v] == width[a]]
        kind = rng.choice(
            ("product", "product", "product", "bias", "unary", "binary", "binary", "concat", "slice")
        )
        if kind == "product":
            shape = (width[a], rng.choice(WIDTHS))
            known = weights.setdefault(shape, [])
            if not known or rng.random() < 0.7:
                known.append(f"w{number}")
                lines.append(f"weight w{number} : f32[{shape[0]}, {shape[1]}]")
            term, out = f"{a} @ {rng.choice(known)}", shape[1]
        elif kind == "bias" and width[a] in bias:
            term, out = f"{a} + {bias[width[a]]}", width[a]
        elif kind == "concat" and width[a] + width[b] <= 2 * max(WIDTHS):
            term, out = f"concat({a}, {b}; axis = 1)", width[a] + width[b]
        elif kind == "slice":
            term, out = f"slice({a}; axis = 1, start = 0, stop = {width[a] // 2})", width[a] // 2
        elif kind == "binary":
            term, out = f"{a} {rng.choice(BINARY)} {rng.choice(alike)}", width[a]
        else:
            term, out = f"{rng.choice(UNARY)}({a})", width[a]
        lines.append(f"{name} = {term}")
        values.append(name)
        width[name] = out
    grid = [v for v in values if v.startswith("g")]
    if grid:
        lines.append(f"all = {' + '.join(grid)}")
        values.append("all")
    lines.append(f"output {', '.join(dict.fromkeys([values[-1], *rng.sample(values[-4:], 2)]))}")
    return "\n".join(lines)


def gru(batch: int, width: int, steps: int = 4) -> str:
    """The body of a GRU, unrolled, as it is written: every gate has weights of its own."""
    lines = [f"input h : f32[{batch}, {width}]"]
    for gate in "zrn":
        lines += [f"weight {kind}{gate} : f32[{width}, {width}]" for kind in "wu"]
        lines.append(f"weight b{gate} : f32[{width}]")
    for t in range(steps):
        lines += [
            f"input x{t} : f32[{batch}, {width}]",
            f"z{t} = sigmoid(x{t} @ wz + h @ uz + bz)",
            f"r{t} = sigmoid(x{t} @ wr + h @ ur + br)",
            f"n{t} = tanh(x{t} @ wn + (r{t} * h) @ un + bn)",
            f"h = (1 - z{t}) * n{t} + z{t} * h",
        ]
    return "\n".join([*lines, "output h"])
