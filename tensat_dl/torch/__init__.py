"""Makes PyTorch modules faster on the CPU.

    import tensat_dl.torch

    fast = tensat_dl.torch.optimize(model, (ids, mask))
    with torch.inference_mode():
        outputs = fast(ids, mask)

See docs/pytorch.md. This needs ``pip install 'tensat-dl[torch]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.util import find_spec
from os import PathLike, fspath
from typing import Any

_MISSING = [name for name in ("torch", "onnxscript", "onnx", "onnxruntime") if find_spec(name) is None]
if _MISSING:
    raise ImportError(
        f"tensat_dl.torch needs the package {_MISSING[0]}, which is not installed\n"
        "  = hint: pip install 'tensat-dl[torch]'"
    )

import torch  # noqa: E402

from tensat_dl.core.diagnostics import Source  # noqa: E402
from tensat_dl.core.words import did_you_mean  # noqa: E402
from tensat_dl.lang.program import load_program  # noqa: E402
from tensat_dl.run.machines import aimed  # noqa: E402
from tensat_dl.run.options import Options  # noqa: E402
from tensat_dl.torch.calls import by_position, without_defaults  # noqa: E402
from tensat_dl.torch.dynamic_shapes import check_dynamic_shapes  # noqa: E402
from tensat_dl.torch.optimized import FallbackWarning, NothingOptimized, Optimized  # noqa: E402
from tensat_dl.torch.prepare import Asked  # noqa: E402

__all__ = ["FallbackWarning", "NothingOptimized", "Optimized", "optimize"]


def optimize(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    rules: Sequence[str | PathLike[str]] = (),
    frozen: bool = False,
    explained: bool = False,
    dynamic_shapes: Any = None,
    sizes: Mapping[str, Mapping[int, Sequence[int]]] | None = None,
    custom_translation_table: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    **options: Any,
) -> Optimized:
    """A module that is called as ``module`` is, computes the same, and is as fast or faster on this CPU.

    The module is exported and optimized for example inputs. Then the module, ONNX Runtime with the graph as exported,
    and ONNX Runtime with the optimized graph are compared and timed; the fastest is what is called. What can't be
    exported is called as it is, with a `FallbackWarning` that says why.

    Args:
        module: A module in evaluation mode, or a program of `torch.export`.
        args: Example inputs by position; for a program those that it has, by default.
        kwargs: Example inputs by name.
        rules: Packs or files of rules. Default: the pack `inference`.
        frozen: The weights will not change, so that calls need not look whether they have. `refresh` makes it anew.
        explained: The report has the steps from one graph to the other. They may take longer than the search.
        dynamic_shapes: Open dimensions, as `torch.export.export` takes them.
        sizes: Several sizes of one open dimension to optimize for: ``{"x": {1: (32, 128, 512)}}``.
        custom_translation_table: Translations of custom operators, as `torch.onnx.export` takes them.
        **options: Those of `tensat_dl.optimize`; ``threads`` are PyTorch's by default. With ``buckets``, ``sizes``
            that want different graphs get their own, which are chosen in each call.

    Raises:
        TypeError: arguments that the module does not take, or an unknown option.
        ValueError: an option is out of range, the device is not the CPU, ``dynamic_shapes`` are not of the form of
            the inputs or of other sizes, or ``sizes`` are no sizes of an open dimension.
        TsrError: rules that can't be read.
    """
    if isinstance(rules, str | PathLike):
        raise TypeError(f"rules is a list of packs or files: rules=[{rules!r}]")
    for name, value, kind in (
        ("kwargs", kwargs or {}, Mapping),
        ("rules", rules, Sequence),
        ("frozen", frozen, bool),
        ("explained", explained, bool),
        ("sizes", sizes or {}, Mapping),
        ("custom_translation_table", custom_translation_table or {}, Mapping),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r}: expected a {kind.__name__}")
    chosen, packs = _options(options), tuple(fspath(rule) for rule in rules)
    if packs:
        load_program("rules", packs, Source("rules", ""), "rules=")  # raises errors before anything else runs
    program = module if isinstance(module, torch.export.ExportedProgram) else None
    if program is not None:
        if dynamic_shapes is not None:
            raise ValueError("dynamic_shapes are for modules: a program has its open dimensions already")
        if args is None and kwargs is None and program.example_inputs is not None:
            args, kwargs = program.example_inputs
        module = program.module()
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise TypeError(f"optimize() takes a module or an ExportedProgram, not {type(module).__name__}")
    if not isinstance(args, tuple | list | None):
        raise TypeError("args is a tuple of example inputs, such as (x,)")
    # Dimensions are given for arguments as they stand; a program has the arguments that it was exported with.
    form = without_defaults if dynamic_shapes is None and program is None else by_position
    bound = form(module.forward, tuple(args or ()), dict(kwargs or {}))
    example = bound.args, bound.kwargs
    if dynamic_shapes is not None:
        check_dynamic_shapes(bound.arguments, dynamic_shapes)
    asked = Asked(
        module,
        example,
        packs,
        chosen,
        frozen,
        explained,
        dynamic_shapes,
        custom_translation_table,
        program,
        sizes or {},
    )
    return Optimized(asked)


def _options(given: Mapping[str, Any]) -> Options:
    """Raises TypeError, ValueError."""
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"options are {', '.join(known)}"
            raise TypeError(f"optimize() has no option {name}: {hint}")
    found = Options(**{"threads": torch.get_num_threads(), **given})
    if found.device not in (None, "cpu"):
        raise ValueError(f"device is {found.device}: modules are optimized for the CPU here")
    return aimed(replace(found, device="cpu"), of_onnx=True)
