"""Whether two graphs compute the same, in exact arithmetic as far as that goes."""

from tensat_dl.verify.exact.compare import Difference, Exact, compare_exactly

__all__ = ["Difference", "Exact", "compare_exactly"]
