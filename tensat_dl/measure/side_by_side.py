"""What several graphs take as a whole, the first being what the others are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensat_dl.measure.statistics import Interval, Latency
from tensat_dl.measure.winner import LOOKS

#: Fresh starts: the fewest that tell a median with confidence.
STARTS = LOOKS[1]


@dataclass(frozen=True)
class TimedRow:
    """One graph. ``ratio`` is its latency over the first one's, None for that; ``error`` how far its outputs are from
    those of the first one, on a GPU in f64; ``reason`` why it was not timed."""

    predicted_ms: float
    latency: Latency | None = None
    ratio: Interval | None = None
    error: float = 0.0
    kernels: Mapping[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    reason: str = ""

    def to_data(self) -> dict[str, Any]:
        """As plain data, in milliseconds and bytes."""
        r = self.ratio
        return {
            "predicted_ms": self.predicted_ms,
            "median_ms": None if self.latency is None else self.latency.median_ms,
            "spread_ms": None if self.latency is None else self.latency.spread_ms,
            "ratio": None
            if r is None
            else {"median": r.mid, "low": r.low, "high": r.high, "confidence": r.confidence},
            "max_rel_error": self.error,
            "kernels": dict(self.kernels),
            "peak_bytes": self.peak_bytes,
            "reason": self.reason,
        }
