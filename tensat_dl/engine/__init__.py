"""Operators and rules as a Datalog program; graphs as facts; rows read back. Only this package knows egglog."""
