"""Why an answer is what it is: the chain of rules behind it, and what kept a rule from firing."""
