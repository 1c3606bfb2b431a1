"""Operators and rules as a Datalog program; graphs as facts; rows read back. Only this package knows egglog."""

#: What the worker process of an exploration runs; see `tensat_dl.processes`.
WORKER = "tensat_dl.engine.worker:explore"
