"""Extraction: the cheapest acyclic graph that a priced e-graph holds. Only this folder knows SCIP."""

from tensat_dl.extract.api import METHODS, extract
from tensat_dl.extract.check import ExtractionCheckError, check
from tensat_dl.extract.types import CyclicEGraphError, Extraction, ExtractionError, Limits, Progress

__all__ = [
    "METHODS",
    "CyclicEGraphError",
    "Extraction",
    "ExtractionCheckError",
    "ExtractionError",
    "Limits",
    "Progress",
    "check",
    "extract",
]
