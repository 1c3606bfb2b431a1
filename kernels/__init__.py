"""The kernels that run on a GPU: Triton kernels, and the cuBLAS and cuDNN calls that they compete with.

Each file has one family of operators: its Triton kernels, torch's functions for the same operators, and a table
``FAMILY`` of the implementations of an application. In float64, torch's functions are the reference that results are
checked against. `registry` joins the tables. The folder needs torch and Triton, and is imported only with them.
"""
