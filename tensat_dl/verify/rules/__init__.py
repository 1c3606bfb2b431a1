"""Whether rewrite rules are true: verdicts with their evidence."""

from tensat_dl.verify.rules.verdict import Counterexample, Verdict
from tensat_dl.verify.rules.verify import rounding_alike, verify_rules

__all__ = ["Counterexample", "Verdict", "rounding_alike", "verify_rules"]
