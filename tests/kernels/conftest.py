"""Triton kernels run in Triton's interpreter here, which has to be said before they are defined. With
TENSAT_DL_GPU_TESTS=1 they run on the GPU of this machine."""

import os
from importlib.metadata import PackageNotFoundError, version

ON_GPU = os.environ.get("TENSAT_DL_GPU_TESTS") == "1"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"


def _release(package: str) -> tuple[int, ...]:
    """The first two numbers of a version; of what is not installed, the largest."""
    try:
        return tuple(int(n) for n in version(package).split(".")[:2])
    except PackageNotFoundError:
        return (999,)


def unable(triton: tuple[int, ...], numpy: tuple[int, ...], on_gpu: bool) -> str:
    """Why kernels with these versions do not run; "" if they do."""
    if on_gpu or triton >= (3, 8) or numpy < (2, 4):
        return ""
    return "the interpreter of Triton before 3.8 takes arrays of one element for numbers, which NumPy 2.4 refuses"


UNABLE = unable(_release("triton"), _release("numpy"), ON_GPU)
