"""The kernels that run on a GPU: Triton kernels, and the cuBLAS and cuDNN calls that they compete with.

One family of operators per file. Each file has its Triton kernels, what torch does for the same operators (which is
also, in float64, the reference that results are checked against), and a table ``FAMILY`` of which implementations an
application has. `registry` puts these tables together. Needs torch and Triton; nothing here is imported without them.
"""
