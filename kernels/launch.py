"""Starting Triton kernels: element types, and kernels from generated source."""

from __future__ import annotations

import linecache
import os
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

TORCH_TYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "bool": torch.bool,
}

#: The most programs along the second or third axis of a grid. Along the first there may be 2^31 - 1.
MOST_ALONG_AXIS = 65_535


def interpreted() -> bool:
    """Whether Triton kernels run in Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def from_source(source: str) -> Any:
    """The Triton kernel ``kernel`` that ``source`` defines. Triton reads the source of a kernel from `linecache`, as
    Python's `inspect` does, so ``source`` is added there."""
    name = f"<kernel {len(linecache.cache)} {hash(source):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"tl": tl, "__name__": "tensat_dl_generated"}
    exec(compile(source, name, "exec"), scope)
    return triton.jit(scope["kernel"])


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 << max(0, n - 1).bit_length()
