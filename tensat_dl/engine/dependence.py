"""Which members of a group depend on one another: one sweep over derivations for the whole group."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set


def layers(
    derivation: Mapping[int, Sequence[int]],
    needs: Sequence[Sequence[int]],
    makes: Sequence[Sequence[int]],
    constant: Set[int],
) -> list[list[int]]:
    """Members, by index, in layers within which none needs, directly or not, what another makes.

    ``derivation`` has for a handle the older handles that it is
    computed from, ``needs`` and ``makes`` are each member's. Nothing that is ``constant`` is computed from a result
    unless some result is constant itself.
    """
    goals = goals_of(makes)
    ignored: Container[int] = constant if constant.isdisjoint(goals) else ()
    reached = _reached(derivation, {h for need in needs for h in need}, goals, ignored)
    return in_layers(reached, needs)


def goals_of(makes: Sequence[Sequence[int]]) -> dict[int, int]:
    """For each handle the members, as bits, that make it."""
    goals: dict[int, int] = {}
    for i, made in enumerate(makes):
        for h in made:
            goals[h] = goals.get(h, 0) | 1 << i
    return goals


def in_layers(reached: Mapping[int, int], needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Each member goes into the first layer that takes it. ``reached`` has for a handle the members, as bits, whose
    results it is or is computed from."""
    found: list[tuple[list[int], int, int]] = []  # members, themselves as bits, what they reach
    for i, need in enumerate(needs):
        below = 0
        for h in need:
            below |= reached.get(h, 0)
        for k, (members, own, reach) in enumerate(found):
            if not below & own and not reach >> i & 1:
                members.append(i)
                found[k] = (members, own | 1 << i, reach | below)
                break
        else:
            found.append(([i], 1 << i, below))
    return [members for members, _, _ in found]


def _reached(
    derivation: Mapping[int, Sequence[int]],
    starts: Set[int],
    goals: Mapping[int, int],
    ignored: Container[int],
) -> dict[int, int]:
    """For each handle below the starts the members, as bits, whose results it is or is computed from.

    What is older than every goal cannot be computed from one, so that only the part of the graph that lies between
    the members is looked at, however deep it is below them.
    """
    oldest = min(goals)
    stack = [h for h in starts if h >= oldest and h not in ignored]
    seen = set(stack)
    while stack:
        for c in derivation.get(stack.pop(), ()):
            if c >= oldest and c not in seen and c not in ignored:
                seen.add(c)
                stack.append(c)
    reached: dict[int, int] = {}
    for h in sorted(seen):  # older ones first
        bits = goals.get(h, 0)
        for c in derivation.get(h, ()):
            bits |= reached.get(c, 0)
        reached[h] = bits
    return reached
