"""Triton kernels run in Triton's interpreter here, which has to be said before they are defined."""

import os

os.environ["TRITON_INTERPRET"] = "1"
