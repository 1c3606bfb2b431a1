"""The benchmarks, ``tensat-dl bench NAME``: a module for each, listed in `tensat_dl.cli.main`.

Such a module has the options and the table. Measurements run in processes of their own (`apart`).
"""
