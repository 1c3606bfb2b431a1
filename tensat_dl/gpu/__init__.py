"""Measuring and running graphs on a GPU (see docs/gpu.md). Needs torch and Triton; neither egglog nor SCIP."""
