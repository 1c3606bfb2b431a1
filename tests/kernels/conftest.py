"""Triton kernels run in Triton's interpreter here, which has to be said before they are defined. With
TENSAT_DL_GPU_TESTS=1 they run on the GPU of this machine."""

import os

ON_GPU = os.environ.get("TENSAT_DL_GPU_TESTS") == "1"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
