"""The state that a module had when it was optimized, to tell when it has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, call, is_, itemgetter
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.nn.modules import module as _modules
from torch.nn.parameter import is_lazy

from tensat_dl.torch.calls import is_same

#: Attributes that every module has, and that PyTorch writes.
_USUAL = frozenset(vars(torch.nn.Module())) - {"training"}
#: The hooks of all modules.
_HOOKS = _modules._global_forward_pre_hooks, _modules._global_forward_hooks
_VERSION, _ADDRESS = attrgetter("_version"), torch.Tensor.data_ptr


#: What has tensors: a dictionary of a module, or a list or dictionary that is an attribute.
Container: TypeAlias = "dict[Any, Any] | list[Any]"


class HeldTensor(NamedTuple):
    """A tensor of a module: what has it, its name there, and its full name."""

    where: Container
    name: Any
    tensor: Any
    version: int
    address: int
    path: str


class WeightsAsTheyWere:
    """The parameters, buffers and other tensors of a module at one moment, also those in lists and dictionaries that
    are attributes; its submodules, the hooks that calls of these run, and those of their attributes that are numbers,
    truth values, strings or None. An attribute that takes the place of one of the class is noticed, too, and so are
    writes to the ``constants`` of its program, which may be tensors from anywhere.

    Writes through ``tensor.data``, or through an array that shares a tensor's memory, leave no trace in PyTorch, nor
    do those to tensors that were made in inference mode: they are not noticed here; nor are other attributes.
    """

    def __init__(self, module: torch.nn.Module, constants: Iterable[Any] = ()) -> None:
        self._tensors = list(held_tensors(module, constants))
        self._settings = [
            (where, name, value, _path(prefix, name))
            for prefix, m in module.named_modules()
            for where in (m._parameters, m._buffers, vars(m))
            for name, value in where.items()
            if type(value) in (bool, int, float, str, NoneType) and name not in _USUAL
        ]
        self._modules = [
            (m._modules, name, child) for m in module.modules() for name, child in m._modules.items()
        ]
        self._named = [d for m in module.modules() for d in (m._modules, m._parameters, m._buffers)]
        self._attributes = [(m, prefix, frozenset(vars(m))) for prefix, m in module.named_modules()]
        self._sized = [*self._named, *(vars(m) for m in module.modules())]
        self._counts = list(map(len, self._sized))
        hooked = [_HOOKS, *((m._forward_pre_hooks, m._forward_hooks) for m in module.modules())]
        self._hooks = list(chain.from_iterable(hooked))
        self._hooks_then = self._hooks_now()
        self._remember()

    def _hooks_now(self) -> list[int]:
        """The numbers of all hooks, of which no two have the same."""
        return list(chain.from_iterable(self._hooks))

    def _remember(self) -> None:
        """Puts what is looked at in every call in lists, over which loops in C run: a call takes microseconds, and a
        module may have a thousand such things."""
        watched: dict[int, tuple[Container, list[Any]]] = {}  # dictionaries and names in them, by id
        for where, name in (
            *((held.where, held.name) for held in self._tensors),
            *((where, name) for where, name, _, _ in self._settings),
            *((where, name) for where, name, _ in self._modules),
        ):
            watched.setdefault(id(where), (where, []))[1].append(name)
        self._dictionaries = [where for where, _ in watched.values()]
        names = [found if len(found) > 1 else found * 2 for _, found in watched.values()]
        self._getters = [itemgetter(*some) for some in names]  # of two names or more: they return tuples
        self._objects = list(chain.from_iterable(map(call, self._getters, self._dictionaries)))
        self._held = [held.tensor for held in self._tensors]
        self._addresses = [held.address for held in self._tensors]
        self._counted = [held.tensor for held in self._tensors if not held.tensor.is_inference()]
        self._versions = [x._version for x in self._counted]

    def leave_out_results(self) -> str:
        """Looks no more at tensors that are others now, after a call of the module: what a call puts there is a
        result, as the weight is of `nn.utils.weight_norm`. A number that a call changes may be a state that decides
        what later calls compute: returns its path, or nothing."""
        self._tensors = still_held(self._tensors)
        self._remember()
        numbers = (path for where, name, value, path in self._settings if not _is_set(where, name, value))
        return next(numbers, "")

    def changed(self) -> str:
        """What has changed since then, in words; empty if nothing has."""
        if self._untouched():
            return ""
        difference = self._difference()
        if not difference:
            self._counts = list(map(len, self._sized))  # an attribute that no call has asked for
        return difference

    def _untouched(self) -> bool:
        """Whether every object is the same as then. Others may be equal to those."""
        try:
            found = chain.from_iterable(map(call, self._getters, self._dictionaries))
            same = all(map(is_, found, self._objects))
        except LookupError:
            return False
        return (
            same
            and list(map(len, self._sized)) == self._counts
            and self._hooks_now() == self._hooks_then
            and list(map(_VERSION, self._counted)) == self._versions
            and list(map(_ADDRESS, self._held)) == self._addresses
        )

    def _difference(self) -> str:
        for where, name, tensor, version, address, path in self._tensors:
            now = _in(where, name)
            if now is not tensor or _version(now) != version or now.data_ptr() != address:
                return f"{path} has changed since it was optimized"
        for where, name, value, path in self._settings:
            if not _is_set(where, name, value):
                return f"{path} was {value} when it was optimized"
        for m, prefix, names in self._attributes:
            if name := next((n for n in vars(m) if n not in names and hasattr(type(m), n)), ""):
                return f"{_path(prefix, name)} was that of its class when it was optimized"
        if any(where.get(name) is not child for where, name, child in self._modules):
            return "it has other submodules than when it was optimized"
        if list(map(len, self._named)) != self._counts[: len(self._named)]:
            return "it has other submodules, parameters or buffers than when it was optimized"
        if self._hooks_now() != self._hooks_then:
            return "it has other hooks than when it was optimized"
        return ""

    def wants_gradients(self) -> bool:
        """Whether a parameter or buffer requires a gradient."""
        return any(held.tensor.requires_grad for held in self._tensors)


def held_tensors(module: torch.nn.Module, constants: Iterable[Any] = ()) -> Iterator[HeldTensor]:
    """The parameters, buffers and other tensors of a module, if they are initialized; then those of the ``constants``
    of its program that it does not hold, such as a default argument or a global variable."""
    seen = set()
    for prefix, m in module.named_modules():
        inside = [
            (_path(prefix, name), value)
            for name, value in vars(m).items()
            if isinstance(value, dict | list) and name not in _USUAL
        ]
        for path, where in (*((prefix, d) for d in (m._parameters, m._buffers, vars(m))), *inside):
            for name, tensor in where.items() if isinstance(where, dict) else enumerate(where):
                if isinstance(tensor, torch.Tensor) and not is_lazy(tensor):
                    seen.add(id(tensor))
                    yield _held(where, name, _path(path, str(name)))
    others = [x for x in constants if isinstance(x, torch.Tensor) and id(x) not in seen]
    for i in range(len(others)):
        yield _held(others, i, "a tensor from outside of the module")


def _held(where: Container, name: Any, path: str) -> HeldTensor:
    tensor = where[name]
    return HeldTensor(where, name, tensor, _version(tensor), tensor.data_ptr(), path)


def still_held(tensors: Sequence[HeldTensor]) -> list[HeldTensor]:
    """Those in whose place there is no other one now."""
    return [held for held in tensors if _in(held.where, held.name) is held.tensor]


def _is_set(where: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether an attribute has a value, that of a number, a truth value, a string or None."""
    now = where.get(name)
    return now is value or is_same(now, value)


def _in(where: Container, name: Any) -> Any:
    """What is there now; None for nothing."""
    try:
        return where[name]
    except LookupError:
        return None


def _path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
