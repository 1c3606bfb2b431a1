"""Extraction: the cheapest acyclic graph that a priced e-graph holds. Only this folder knows SCIP.

Nothing is imported here: `tensat_dl.extract` is also the name of a function (see there).
"""
