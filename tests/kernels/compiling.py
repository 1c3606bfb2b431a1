"""Compiles what kernels launch to machine code for GPUs that are not there. Runs in a process of its own:

    python -m tests.kernels.compiling ARCHITECTURE SIGNATURE..

where a signature is what a file of signatures has for it.
Every launch is compiled as it would be on a GPU of that architecture, and does nothing. Prints what was compiled as
JSON: by signature, of each implementation the bytes of the machine code and the number of divisions of 64 bits, or
what went wrong.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from tensat_dl.cost.application import from_data
from tensat_dl.resources import kernels

POINTERS = {
    torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.bool: "*i1", torch.int64: "*i64",
}  # fmt: skip
OPTIONS = ("num_warps", "num_stages")


class Compiler:
    """Takes the place of Triton's launcher. ``sizes`` are those of the machine code made so far, and
    ``divisions`` are those of 64 bits in it."""

    def __init__(self, architecture: int) -> None:
        self.target = GPUTarget("cuda", architecture, 32)
        self.sizes: list[int] = []
        self.divisions = 0

    def launch(self, kernel: JITFunction[Any], *args: Any, **named: Any) -> None:
        for name in ("grid", "warmup"):
            named.pop(name, None)
        options = {name: named.pop(name) for name in OPTIONS if name in named}
        values = {**dict(zip(kernel.arg_names, args, strict=False)), **named}
        # As in Triton, a 1 is known ahead of time: mostly it is the stride of neighbours.
        known = {p.name for p in kernel.params if p.is_constexpr}
        plain = {p.name for p in kernel.params if p.do_not_specialize}
        constants = {
            k: v
            for k, v in values.items()
            if k in known or (isinstance(v, int) and v == 1 and k not in plain)
        }
        types = {
            name: "constexpr"
            if name in constants
            else POINTERS[v.dtype]
            if isinstance(v, torch.Tensor)
            else "i32"
            for name, v in values.items()
        }
        # .. as are multiples of 16, which is what makes wide and pipelined loads possible. All tensors begin at one.
        even = [
            n
            for n, v in values.items()
            if n not in constants and n not in plain and (isinstance(v, torch.Tensor) or v % 16 == 0)
        ]
        source = ASTSource(
            fn=kernel,
            signature=types,
            constexprs={(kernel.arg_names.index(n),): v for n, v in constants.items()},
            attrs={(kernel.arg_names.index(n),): [["tt.divisibility", 16]] for n in even},
        )
        compiled = triton.compile(source, target=self.target, options=options)
        self.sizes.append(len(compiled.asm["cubin"]))
        self.divisions += len(re.findall(r"\b(?:div|rem)\.[su]64\b", compiled.asm["ptx"]))


def main() -> None:
    architecture, *texts = sys.argv[1:]
    compiler = Compiler(int(architecture))
    JITFunction.run = lambda self, *args, **named: compiler.launch(self, *args, **named)  # type: ignore[method-assign]
    registry, launch = kernels("registry"), kernels("launch")
    found: dict[str, dict[str, object]] = {}
    for text in texts:
        job = from_data(json.loads(text))
        signature = job.signature
        operands = [torch.ones(t.shape, dtype=launch.TORCH_TYPES[t.dtype]) for t in signature.inputs]
        offers = [i for i in registry.implementations(signature, job.definition) if i.kind == "triton"]
        results = found[text] = {}
        for implementation in (offers[0], offers[-1]):
            compiler.sizes.clear()
            compiler.divisions = 0
            try:
                implementation.build()(operands)
                results[implementation.name] = sum(compiler.sizes), compiler.divisions
            except Exception as e:  # the caller says that it failed
                results[implementation.name] = f"{type(e).__name__}: {e}"
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
