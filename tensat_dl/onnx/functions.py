"""A model's own functions, whose bodies take the place of the nodes that call them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import onnx
import onnx.inliner

#: The beginnings of domains with operators of ONNX Runtime's: where it has one, it runs that, and no function of the
#: same name.
_RUNTIME = ("ai.onnx", "com.microsoft")

#: What identifies a function.
_Key: TypeAlias = tuple[str, str, str]


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model without calls of its own functions. These stay: functions in domains that ONNX Runtime has
    operators of, and those that need other versions of operators than the model. All stay if ONNX's inliner fails, as
    for functions that call themselves."""
    chosen = [(f.domain, f.name) for f in model.functions if f.domain and not f.domain.startswith(_RUNTIME)]
    if not chosen:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for function in changed.functions:
        _import_alike(function, changed)
    _state_defaults(changed)
    try:
        return onnx.inliner.inline_selected_functions(changed, chosen)
    except Exception:  # the inliner has no class of its own for its errors
        return model


def _import_alike(function: onnx.FunctionProto, model: onnx.ModelProto) -> None:
    """Has the model import the domains of a function, as the inliner does not. The function gets the model's version
    of the standard operators, if those that it applies are the same there: the inliner leaves functions of others."""
    known = {entry.domain: entry.version for entry in model.opset_import}
    for entry in function.opset_import:
        if entry.domain not in known:
            model.opset_import.append(entry)
        elif not entry.domain:
            versions = entry.version, known[""]
            standard = {n.op_type for n in _nodes(function) if not n.domain}
            if all(len({_since(op, version) for version in versions}) == 1 for op in standard):
                entry.version = known[""]


def _since(op: str, version: int) -> int:
    """The version that an operator of an opset is of; the opset, if that does not have the operator."""
    return onnx.defs.get_schema(op, version).since_version if onnx.defs.has(op, version) else version


def _state_defaults(model: onnx.ModelProto) -> None:
    """Gives calls those attributes that the functions have defaults for: the inliner leaves these out."""
    defaults = {
        _key(f.domain, f.name, f.overload): {a.name: a for a in f.attribute_proto} for f in model.functions
    }
    for node in _nodes(model.graph):
        _complete(node, defaults)
    for function in model.functions:
        for node in _nodes(function):
            _complete(node, defaults)


def _complete(node: onnx.NodeProto, defaults: Mapping[_Key, Mapping[str, onnx.AttributeProto]]) -> None:
    given = {a.name for a in node.attribute}
    known = defaults.get(_key(node.domain, node.op_type, node.overload), {})
    node.attribute.extend(attribute for name, attribute in known.items() if name not in given)


def _key(domain: str, name: str, overload: str) -> _Key:
    return "" if domain == "ai.onnx" else domain, name, overload


def _nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """All nodes, also those within nodes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
