"""Why a rule has no proof."""

from __future__ import annotations

from collections.abc import Sequence

from tensat_dl.verify.assigned import Assigned


class Unproved(Exception):
    """There is no proof; the message says why. ``left`` are the assignments of ranks and axes without one, if they
    were looked at one by one: the first failed, the others were not tried."""

    def __init__(self, reason: str, left: Sequence[Assigned] = ()) -> None:
        super().__init__(reason)
        self.left = tuple(left)


class Inexpressible(Exception):
    """The proof method has no words for this."""
