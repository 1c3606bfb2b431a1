"""The benchmarks, ``tensat-dl bench NAME``: a module for each, listed in `tensat_dl.cli.main`.

The command's module has options and table; what is measured runs in a process of its own (`apart`).
"""
