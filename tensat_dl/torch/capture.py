"""From a PyTorch module to a program of `torch.export`, and from that to an ONNX model, which shares its weights'
memory.

A program that would not do what the module does is declined: one that draws at random, or that writes to the module's
state or to its inputs.
"""

from __future__ import annotations

import logging
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from threading import RLock
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

from tensat_dl.core.words import first_line
from tensat_dl.torch.attention import mend_attention
from tensat_dl.torch.constants import compute_ahead
from tensat_dl.torch.encoders import encoders_as_called
from tensat_dl.torch.equivalents import use_equivalents

if TYPE_CHECKING:
    import onnx_ir as ir

#: Code that is not the user's.
_TORCH, _OURS, _PYTHON = Path(torch.__file__).parent, Path(__file__).parent, Path(logging.__file__).parents[1]
#: What torch says while it exports is in the error that it raises, or of no use to the user.
_LOGGERS = ("torch.onnx", "torch.export", "torch._export", "torch.fx.experimental.symbolic_shapes")
#: While `torch.export` traces a module, this has other parameters, and calls of any module are traced.
_EXPORTING = RLock()
#: With any of these values an operator that may draw at random does not.
_STEADY = {"p": 0, "dropout": 0, "dropout_p": 0, "train": False, "training": False}
#: Functions of floats that `is_inexact` tells of.
_ATEN = torch.ops.aten
_INEXACT = frozenset((_ATEN.atan2, _ATEN.expm1, _ATEN.floor_divide, _ATEN.log1p, _ATEN.remainder))
#: An operator as PyTorch prints it.
_OPERATOR = re.compile(r"\(op='\w+\.(\w+)'")
#: What an open dimension has to satisfy at all of its sizes: its name, the dimension of an input, and what.
_UNPROVEN = re.compile(
    r"Not all values of (\S+) = (.+?) in the specified range .*satisfy the generated guard (.+?)\.?$"
)
#: A place as a traceback prints it.
_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


class Declined(Exception):
    """A module has to run as it is. The message says why, and where in the user's code, where that is known."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(f"{reason}, at {place}" if place else reason)


class Untranslated(Declined):
    """The exporter has no translation of an operator of a program."""

    def __init__(self, reason: str, node: torch.fx.Node) -> None:
        super().__init__(reason, _of_node(node))
        self.operator = node.target


def captured(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = None
) -> torch.export.ExportedProgram:
    """The program of a module for these inputs. Raises `Declined`, and ValueError for ``dynamic_shapes`` that are not
    of their form."""
    args, kwargs = _each_by_itself(args, kwargs)
    try:
        with _EXPORTING, quiet(), encoders_as_called(module):
            program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except UserError as e:
        if e.error_type is UserErrorType.INVALID_INPUT and dynamic_shapes is not None:
            raise ValueError(f"dynamic_shapes are not those of the inputs: {first_line(e)}") from None
        raise Declined(f"torch.export can't capture the module: {_of_sizes(e)}", _raised_at(e)) from None
    except Exception as e:  # what the user's code raises, too
        reason = f"torch.export can't capture the module: {first_line(e)}"
        raise Declined(reason, _raised_at(e)) from None
    return functional(program)


def wait_for_exports() -> None:
    """Returns as soon as no other thread has `torch.export` trace a module: until then none can be called."""
    with _EXPORTING:
        pass


def _of_sizes(error: UserError) -> str:
    """What torch says of open dimensions that are not as open as they were said to be: which, and what it suggests;
    of other errors the first line."""
    if error.error_type is not UserErrorType.CONSTRAINT_VIOLATION:
        return first_line(error)
    violated, _, rest = str(error).partition("Suggested fixes:")
    reason = next(
        (line.strip(" -") for line in violated.splitlines() if line.startswith("  - ")), first_line(error)
    )
    suggested = [line.strip() for line in rest.splitlines() if line.startswith("  ")]
    if (unproven := _UNPROVEN.match(reason)) is not None:
        name, dimension, needed = unproven.groups()
        reason = f"it can't show for all sizes of {name} that {needed.replace(dimension, name)}."
        suggested.append(f"Dim.DYNAMIC in place of {name}, which needs no proof")
    return reason + (f" It suggests {'; '.join(suggested)}" if suggested else "")


def _each_by_itself(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs with copies of tensors that stand there twice: `torch.export` would take both for one input."""
    seen: set[int] = set()

    def alone(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or id(x) not in seen:
            seen.add(id(x))
            return x
        return x.detach().clone()

    copied: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(alone, (args, kwargs))
    return copied


def functional(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The same program without operators that write to their operands. Raises `Declined` if it does not do what the
    module does."""
    _check_devices(program)
    _check_random(program)
    try:
        with quiet():
            found = program.run_decompositions({})
    except Exception as e:
        raise Declined(f"torch.export can't take its writes apart: {first_line(e)}", _raised_at(e)) from None
    _check_writes(found)
    _check_sizes(found)
    return found


def to_onnx(
    program: torch.export.ExportedProgram,
    outputs: Callable[[int, Any], bool],
    translations: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
) -> ir.Model:
    """The ONNX model of a program. It has those outputs, given by position and argument, that are asked for;
    ``translations`` are those of `torch.onnx.export` for custom operators. Raises `Declined`."""
    compute_ahead(program, is_inexact)
    if (inexact := next(filter(is_inexact, program.graph.nodes), None)) is not None:
        name = inexact.target._schema.name
        raise Declined(f"{name} is not exact in ONNX Runtime", _of_node(inexact))
    node = program.graph.output_node()
    node.args = (tuple(a if outputs(i, a) else None for i, a in enumerate(node.args[0])),)
    try:
        mend_attention(program)
        use_equivalents(program)
        with quiet():
            exported = torch.onnx.export(
                program, dynamo=True, verbose=False, custom_translation_table=translations
            )
    except Exception as e:  # the exporter has many kinds of errors
        first: BaseException = e
        while first.__cause__ is not None:
            first = first.__cause__
        reason = f"torch.onnx.export can't translate the module: {first_line(first)}"
        named = _named_in(str(first), program) or _with_named_within(str(first), program)
        if named is not None and "No ONNX function found" in reason:
            raise Untranslated(reason, named) from None
        raise Declined(reason, _of_node(named) if named is not None else "") from None
    model: ir.Model = exported.model
    return model


# ---- what a program may not do ---------------------------------------------------------------------------------


def _check_devices(program: torch.export.ExportedProgram) -> None:
    tensors = [*program.state_dict.values(), *program.constants.values(), *_values(program)]
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device.type != "cpu":
            raise Declined(f"it is on {tensor.device}, and ONNX Runtime runs it on the CPU here")


def _values(program: torch.export.ExportedProgram) -> Iterator[Any]:
    for node in program.graph.find_nodes(op="placeholder"):
        yield node.meta.get("val")


def _check_random(program: torch.export.ExportedProgram) -> None:
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            op = node.target
            if not isinstance(op, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in op.tags:
                continue
            values = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
            values |= {a.name: v for a, v in zip(op._schema.arguments, node.args, strict=False)}
            values |= node.kwargs
            if not any(name in values and values[name] == steady for name, steady in _STEADY.items()):
                hint = " (is it in training mode? call model.eval())" if "dropout" in op._schema.name else ""
                raise Declined(f"{op._schema.name} draws at random{hint}", _of_node(node))


def _check_sizes(program: torch.export.ExportedProgram) -> None:
    """Sizes are integers in ONNX, too, but quotients are rounded to 0 there, and factors are in f32."""
    for node in program.graph.nodes:
        sizes = _sizes_in(node.meta.get("val"))
        if node.target is operator.floordiv and isinstance(node.args[0], torch.fx.Node):
            divided = _sizes_in(node.args[0].meta.get("val"))
            if any(bound_sympy(n, program.range_constraints).lower < 0 for n in divided):
                raise Declined("a size that may be negative is divided, and ONNX rounds to 0", _of_node(node))
        factors = [float(a) for n in sizes for a in n.atoms() if a.is_Float]
        if inexact := next((c for c in factors if float(np.float32(c)) != c), 0.0):
            raise Declined(f"a size is computed with {inexact:g}, which ONNX has in f32", _of_node(node))


def _sizes_in(value: object) -> list[Any]:
    """The expressions of open sizes in a value of a program: a size, or the shape of a tensor."""
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return [n.node.expr for n in sizes if isinstance(n, torch.SymInt) and not n.node.expr.is_number]


def _check_writes(program: torch.export.ExportedProgram) -> None:
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            continue
        what = "its input" if spec.kind == OutputKind.USER_INPUT_MUTATION else "its buffer or parameter"
        hint = "; is it in training mode? call model.eval()" if "BUFFER" in spec.kind.name else ""
        raise Declined(f"the module writes to {what} {spec.target}{hint}")


def is_inexact(node: torch.fx.Node) -> bool:
    """Whether an operator is translated to others that compute something else: the exporter divides integers by a
    number in f32, and ONNX Runtime multiplies them in f64; log(1 + x) and exp(x) - 1 have few digits of a small x;
    x - floor(x / y) y is off by y where x / y is rounded to a whole number; atan(y / x) has no signs of zeros; of
    several numbers that are scattered to one place, the last one is no mean; and labels are not smoothed."""
    op, found = node.target, node.meta.get("val")
    if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten":
        return False
    if not isinstance(found, torch.Tensor):
        return False
    if op.overloadpacket is _ATEN.scatter_reduce and node.args[4] == "mean":
        return True
    if op.overloadpacket is _ATEN.cross_entropy_loss and any(isinstance(a, float) and a for a in node.args):
        return True
    rounded = op.overloadpacket is _ATEN.div and node.kwargs.get("rounding_mode") is not None
    if found.dtype.is_floating_point:
        return rounded or op.overloadpacket in _INEXACT
    by_number = rounded and not isinstance(node.args[1], torch.fx.Node)
    return by_number or (op.overloadpacket is _ATEN.prod and not found.dtype.is_complex)


# ---- places in the user's code ---------------------------------------------------------------------------------


def _raised_at(error: BaseException) -> str:
    """The last line of the user's that was running."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return _last(places)


def _named_in(message: str, program: torch.export.ExportedProgram) -> torch.fx.Node | None:
    """The first node whose operator the message names, or, as `linalg_inv` for `linalg_inv_ex`, the one with the
    longest name that is in that."""
    nodes = [n for n in program.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    exact = next((n for n in nodes if repr(n.target) in message), None)
    named = _OPERATOR.search(message)
    parts = [n for n in nodes if named and n.target.overloadpacket.__name__ in named.group(1)]
    return exact or max(parts, key=lambda n: len(n.target.overloadpacket.__name__), default=None)


def _with_named_within(message: str, program: torch.export.ExportedProgram) -> torch.fx.Node | None:
    """The first node that has the operator which the message names within it, as `cumprod` has `prims.prod`: the
    exporter takes apart what it has no translation of."""
    try:
        with quiet():
            usual = torch.export.default_decompositions()
            apart = program.run_decompositions({**torch._decomp.decomposition_table, **dict(usual.items())})
    except Exception:
        return None
    named = _named_in(message, apart)
    within = named.meta.get("from_node", ()) if named is not None else ()
    return next((n for n in program.graph.nodes if within and n.name == within[0].name), None)


def _of_node(node: torch.fx.Node) -> str:
    """Where an operator comes from: a line of the user's, or the module that is called there."""
    found = _last([(file, int(line), name) for file, line, name in _PLACE.findall(node.stack_trace or "")])
    modules = [path for path, _ in node.meta.get("nn_module_stack", {}).values() if path]
    return found or (f"the submodule {modules[-1]}" if modules else "")


def _last(places: list[tuple[str, int, str]]) -> str:
    """The last place that is the user's, as in ``model.py:12, in forward``."""
    for file, line, name in reversed(places):
        if _of_users(file):
            return f"{file}:{line}, in {name}"
    return ""


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code."""
    return _of_users(frame.f_code.co_filename)


def _of_users(file: str) -> bool:
    path = Path(file)
    of_python = _PYTHON in path.parents and "site-packages" not in path.parts
    return path.exists() and not of_python and _TORCH not in path.parents and _OURS not in path.parents


@contextmanager
def quiet() -> Iterator[None]:
    """What PyTorch would log, warn of or print is nothing to the user. Threads have to take turns."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
