"""ONNX files as onnx-ir models, and back. Weights stay in a file that was read until they are asked for."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.words import first_line
from tensat_dl.files import real_path
from tensat_dl.lang.load import readable
from tensat_dl.onnx.functions import inlined
from tensat_dl.onnx.sparse import write_out

#: Operator sets whose operators are read. Models of older ones are converted to the first of these; operators that
#: later ones changed are opaque.
OLDEST, NEWEST = 11, 28
#: Since this set a Scan has no dimension for a batch, and ONNX's converter leaves older ones as they are.
SCANNING = 9
#: A protobuf file ends at 2 GiB. The weights of larger models stand in a file of their own.
MAX_BYTES = 2**31 - 2**24
#: Weights with at least so many bytes go there.
LARGE = 1024
#: A tensor with more elements is refused: it has a terabyte.
MOST_ELEMENTS = 2**40


def failed(path: str, message: str, hint: str = "") -> TsrError:
    """An error about a file as a whole."""
    return TsrError([Diagnostic(message, None, hint, path=path)])


# ---- reading ---------------------------------------------------------------------------------------------


@contextmanager
def _quietly() -> Iterator[None]:
    """What onnx-ir logs of a model is said as an error."""
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_model(path: str) -> ir.Model:
    """The model in a file without calls of its own functions, its nodes in an order in which they can be computed.
    Raises `TsrError` if there is none, or it can't be read."""
    with readable(path):
        with open(path, "rb") as file:
            if not file.read(1):
                raise failed(path, "the file is empty")
        try:
            proto = onnx.load(path, load_external_data=False)
            _has_no_maps(path, proto)
            for graph in (proto.graph, *proto.functions):
                _branches_are_computed(path, graph)
            proto = inlined(proto)
            write_out(proto)
            with _quietly():
                model = ir.from_proto(proto)
            model.graph.sort()
            ir.external_data.set_base_dir(model.graph, os.path.dirname(path))
        except DecodeError:
            message = "this is not an ONNX file, or it is truncated"
            raise failed(path, message, _what_it_is(path)) from None
        except (OSError, TsrError):
            raise
        except Exception as e:  # whatever onnx and onnx-ir find wrong with a model
            message = f"the model can't be read: {first_line(_first_cause(e))}"
            raise failed(path, message, "is the file damaged?") from None
    if not model.graph.outputs:
        raise failed(path, "this is not an ONNX file: it has no graph with outputs", _what_it_is(path))
    _supported(path, model)
    _names_are_text(path, model)
    _sizes_are_possible(path, model)
    if any(_external_attributes(model)):  # everything else looks for external data among initialisers
        LiftConstantsToInitializersPass(size_limit=0)(model)
        for node in _external_attributes(model):
            message = f"an attribute of a node {node.op_type} is external data"
            raise failed(path, message, "put it into the model: onnx.save(onnx.load(path), path)")
    _has_its_weights(path, model)
    return model


def external_weights(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor]]:
    """The weights that stand in other files, by name."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield str(value.name), value.const_value


def data_files(model: ir.Model) -> list[str]:
    """The other files that a model's weights stand in."""
    return list(dict.fromkeys(os.fspath(tensor.path) for _, tensor in external_weights(model)))


def opset(model: ir.Model) -> int:
    """The version of the standard operators."""
    return model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))


def _supported(path: str, model: ir.Model) -> None:
    for what, version, newest in (
        ("IR version", model.ir_version or 0, onnx.IR_VERSION),
        ("opset", opset(model), onnx.defs.onnx_opset_version()),
    ):
        if version > newest:
            message = f"the model has {what} {version}, and the installed onnx knows versions up to {newest}"
            raise failed(path, message, "install a newer onnx")
    standard = (n for n in ir.traversal.RecursiveGraphIterator(model.graph) if n.domain in ("", "ai.onnx"))
    if opset(model) < 1 and (node := next(standard, None)) is not None:
        message = f"the model does not say which opset its operator {node.op_type} is of"
        raise failed(path, message, "add one for the domain '' to its opset_import")


def _branches_are_computed(path: str, graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Raises `TsrError` for a branch or a body that gives what only the graph around it has."""
    for node in graph.node:
        for inner in (g for a in node.attribute for g in (*a.graphs, *([a.g] if a.HasField("g") else ()))):
            own = {name for n in inner.node for name in n.output}
            own |= {v.name for v in (*inner.input, *inner.initializer)}
            own |= {v.values.name for v in inner.sparse_initializer}
            for value in inner.output:
                if value.name not in own:
                    message = (
                        f"a graph in a node {node.op_type} gives {value.name}, which it does not compute"
                    )
                    raise failed(path, message, "the model is not valid")
            _branches_are_computed(path, inner)


def _has_no_maps(path: str, proto: onnx.ModelProto) -> None:
    """Raises `TsrError` for a value that is a map, which onnx-ir does not read."""
    graph = proto.graph
    for what, values in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        for value in values:
            kind = value.type
            while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
                kind = getattr(kind, kind.WhichOneof("value")).elem_type
            if kind.HasField("map_type"):
                message = f"the {what} {value.name} is a map, a type that is not read"
                hint = "export a classifier of scikit-learn with options={'zipmap': False}"
                raise failed(path, message, hint)


def _first_cause(e: BaseException) -> BaseException:
    """The exception that an exception was made of, and that was made of, at last."""
    while e.__cause__ is not None:
        e = e.__cause__
    return e


def _external_attributes(model: ir.Model) -> Iterator[ir.Node]:
    """Nodes with a tensor among their attributes that stands in another file."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for attr in node.attributes.values():
            if isinstance(attr.value, ir.ExternalTensor):
                yield node


def _has_its_weights(path: str, model: ir.Model) -> None:
    """Raises `TsrError` unless all external data is there."""
    readable = set()
    for name, tensor in external_weights(model):
        hint = "external data stands beside the model, under the name that it was written with"
        try:
            size = os.path.getsize(tensor.path)
        except (OSError, ValueError):  # ValueError: a name with a NUL character
            message = f"the weight {name} is in {tensor.location}, which is not there"
            raise failed(path, message, hint) from None
        if tensor.length not in (None, tensor.nbytes):
            message = (
                f"the weight {name} has {tensor.length:,} bytes in {tensor.location}, not {tensor.nbytes:,}"
            )
            raise failed(path, message, "is the file damaged?")
        if (tensor.offset or 0) + tensor.nbytes > size:
            message = f"the weight {name} lies beyond the end of {tensor.location}"
            raise failed(path, message, "the file is truncated, or belongs to another model")
        if tensor.location in readable:
            continue
        try:
            tensor.numpy()
        except ValueError:  # onnx-ir reads nothing that a model of unknown origin should not lead to
            message = f"{tensor.location} is a link, or outside of the model's folder, and is not read"
            raise failed(path, message, "copy the model and its data to one folder (cp -L)") from None
        readable.add(tensor.location)


def _names_are_text(path: str, model: ir.Model) -> None:
    """Raises `TsrError` for a name of a value with bytes that are no UTF-8, which onnx-ir leaves as they are."""
    for graph in model.graphs():
        used = (v for node in graph for v in (*node.inputs, *node.outputs) if v is not None)
        for value in (*graph.inputs, *graph.initializers.values(), *graph.outputs, *used):
            if isinstance(value.name, bytes):
                message = f"the name {value.name!r} of a value is not text"
                raise failed(path, message, "names are in UTF-8; is the file damaged?")


def _sizes_are_possible(path: str, model: ir.Model) -> None:
    """Raises `TsrError` for a dimension below -1, which stands for an open one, for a tensor that no memory holds,
    and for a tensor in the file that has more or fewer elements than its shape says."""
    for graph in model.graphs():
        nodes = list(graph)
        values = [*graph.inputs, *graph.initializers.values(), *(v for node in nodes for v in node.outputs)]
        for value in values:
            known = [d for d in value.shape or () if isinstance(d, int)]
            if prod(known) > MOST_ELEMENTS:
                message = f"{value.name} has a shape of {prod(known):,} elements"
                raise failed(path, message, f"the most are {MOST_ELEMENTS:,}")
            below = [d for d in known if d < -1]
            if below:
                message = f"{value.name} has a dimension of {below[0]}"
                raise failed(path, message, "sizes are not negative; an open dimension has a name, or is -1")
        tensors = [(str(v.name), v.const_value) for v in graph.initializers.values()]
        tensors += [(f"of a node {n.op_type}", a.value) for n in nodes for a in n.attributes.values()]
        for name, tensor in tensors:
            if not isinstance(tensor, ir.TensorProtoTensor):
                continue
            if any(isinstance(d, int) and d < 0 for d in tensor.shape):
                raise failed(
                    path, f"the tensor {name} has the shape {tensor.shape}", "sizes are not negative"
                )
            try:
                tensor.numpy()
            except ValueError as e:
                message = f"the tensor {name} can't be read: {first_line(e)}"
                raise failed(path, message, "is the file damaged?") from None


def _what_it_is(path: str) -> str:
    """A guess from the first bytes."""
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer: fetch the model with `git lfs pull`"
    if start.startswith(b"PK"):
        return "it is a ZIP archive, such as PyTorch writes: export the model to ONNX"
    return "download or export it again"


def converted(model: ir.Model, path: str) -> ir.Model:
    """``model``, which was read from ``path``, in operators of the set `OLDEST`. Raises `TsrError`.

    Before IR version 4 initialisers had to be listed among the inputs, too. They are no inputs in what is returned.
    """
    if opset(model) < SCANNING and any(
        n.op_type == "Scan" and n.domain in ("", "ai.onnx")
        for n in ir.traversal.RecursiveGraphIterator(model.graph)
    ):
        message = f"the model has opset {opset(model)}, and ONNX does not convert its Scan to {OLDEST}"
        raise failed(path, message, f"export it with opset {OLDEST} or a later one")
    proto = ir.to_proto(model)
    constants = {i.name for i in proto.graph.initializer} if proto.ir_version < 4 else set()
    inputs = [i for i in proto.graph.input if i.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    version = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", OLDEST)])
    proto.ir_version = max(proto.ir_version, version)
    try:
        newer = ir.from_proto(onnx.version_converter.convert_version(proto, OLDEST))
    except Exception as e:  # ONNX's converter has no class of its own for its errors
        message = f"the model has opset {opset(model)}, and can't be converted to {OLDEST}: {first_line(e)}"
        raise failed(path, message, f"export it with opset {OLDEST} or a later one") from None
    for node in ir.traversal.RecursiveGraphIterator(newer.graph):
        if node.op_type == "Resize" and node.domain in ("", "ai.onnx"):
            _resize_as_before(node)
    newer.metadata_props.update(model.metadata_props)
    ir.external_data.set_base_dir(newer.graph, os.path.dirname(path))
    return newer


def _resize_as_before(node: ir.Node) -> None:
    """Has a Resize of opset 10, or an Upsample, look where it did: what ONNX's converter makes of it does so at the
    centres of pixels, as Resize does by default since opset 11."""
    given = node.inputs[2]
    scales = None if given is None else ir.convenience.get_const_tensor(given)
    shrinks = scales is not None and bool((scales.numpy() <= 1).all())
    for name, value in {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "ceil" if shrinks else "floor",
    }.items():
        node.attributes[name] = ir.AttrString(name, value)


# ---- writing ---------------------------------------------------------------------------------------------


@contextmanager
def staged(model: ir.Model | Path, path: str) -> Iterator[Path]:
    """Writes a model, or copies a file, to a folder beside ``path`` that exists only meanwhile; the file in it is
    given. Weights get a file of their own, ``path`` with ``.data`` behind it, if the model is too large for one file
    or had such files. Raises OSError."""
    target = real_path(path)
    try:
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=".tensat-dl-"))
    except OSError as e:
        raise OSError(e.errno, e.strerror or str(e), path) from None
    try:
        file = folder / target.name
        try:
            if isinstance(model, Path):
                shutil.copyfile(model, file)
            else:
                save(model, file)
        except OSError as e:
            raise OSError(e.errno, e.strerror or str(e), path) from None
        yield file
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def commit(staged: Path, path: str) -> None:
    """Moves a staged model to its place, weights first."""
    model = real_path(path)
    if model.exists() and not model.is_file():  # a device or a pipe
        model.write_bytes(staged.read_bytes())
        return
    files = sorted(staged.parent.iterdir(), key=lambda p: p == staged)
    for file in files:
        if (model.parent / file.name).exists():
            shutil.copymode(model.parent / file.name, file)
        with open(file, "rb") as written:
            os.fsync(written.fileno())
    for file in files:  # at once: between these, the model that was there has the new one's weights
        os.replace(file, model.parent / file.name)


def save(model: ir.Model, path: Path) -> Path:
    """Writes a model where nothing stands yet, and returns where it is. Raises OSError."""
    if external(model):
        ir.save(model, path, external_data=data_of(path).name, size_threshold_bytes=LARGE)
    else:
        ir.save(model, path, format="protobuf")
    if any(not f.domain for f in model.functions.values()):  # onnx's checker asks for what onnx-ir leaves out
        proto = onnx.load(path, load_external_data=False)
        for function in proto.functions:
            function.domain = function.domain
        path.write_bytes(proto.SerializeToString())
    return path


def data_of(path: Path) -> Path:
    """The file for the weights of a model, if they get one."""
    return path.with_name(f"{path.name}.data")


def external(model: ir.Model) -> bool:
    """Whether a model's weights have to stand in a file of their own, or did."""
    if any(external_weights(model)):
        return True
    tensors = [v.const_value for graph in model.graphs() for v in graph.initializers.values()]
    return sum(t.nbytes for t in tensors if t is not None) > MAX_BYTES


def size_of(model: ir.Model, path: str) -> int:
    """Bytes of a model's file and of the weights that stand in others."""
    return os.path.getsize(path) + sum(t.nbytes for _, t in external_weights(model))
