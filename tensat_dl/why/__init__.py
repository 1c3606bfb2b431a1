"""Explanations: the chain of rules behind an answer, and the reason why a rule did not fire."""
