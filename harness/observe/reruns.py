"""What would a module have given otherwise? A copy of it is called once more, and leaves no trace.

What cannot be copied without reaching into what is the user's is not called: see ``Strayed``.
"""

from __future__ import annotations

import copy
import logging
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.utils._python_dispatch import _disable_current_modes

from harness.observe.activations import tensors_in

PLAIN = (Tensor, nn.Parameter)
"""Others may be sharded over ranks, quantised, or not real."""

ATOMS = (type(None), bool, int, float, str, torch.dtype, torch.device)
"""Arguments that no call changes."""

GLOBAL_HOOKS = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
)


class Strayed(Exception):
    """A call that cannot be repeated apart from what is the user's: it would change it, or run it a second time."""


@dataclass(frozen=True)
class Call:
    """A module and what it was called with."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def repeat(
        self, tensors: Mapping[int, Tensor], change: Callable[[Tensor], Tensor], region: AbstractContextManager[Any]
    ) -> list[Tensor]:
        """Return the floating-point outputs of a copy.

        ``tensors`` has what takes the place of each tensor of the module, by its id, and ``change`` what takes that of
        an argument; the call is made in ``region``.
        """
        if torch._C._functorch.peek_interpreter_stack() is not None:  # noqa: SLF001 - inside vmap
            raise Strayed
        args, kwargs = _mapped(self.args, change), _mapped(self.kwargs, change)
        twin = _copied(self.module, tensors)
        devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
        with _aside(twin, devices), region:
            return list(tensors_in(twin(*args, **kwargs)))


def tensors_of(module: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Yield each parameter, buffer and other tensor attribute with its module and its name there."""
    for part in module.modules():
        for held in (part._parameters, part._buffers, vars(part)):  # noqa: SLF001 - functional_call swaps these
            for name, value in held.items():
                if isinstance(value, Tensor):
                    yield part, name, value


def cloned(tensor: Tensor) -> Tensor:
    """Return a copy in the same format."""
    return tensor.detach().clone()


def without_autocast(tensors: Mapping[int, Tensor]) -> AbstractContextManager[Any]:
    """Return a region without autocast on the devices of these tensors."""
    stack = ExitStack()
    for kind in sorted({tensor.device.type for tensor in tensors.values()}):
        stack.enter_context(torch.autocast(kind, enabled=False))
    return stack


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return arguments with each tensor changed; an object that a call could change is not passed on."""
    if isinstance(value, Tensor):
        if type(value) not in PLAIN:
            raise Strayed
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(item, change) for item in value))
    if type(value) in (tuple, list):
        return type(value)(_mapped(item, change) for item in value)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _mapped(item, change)) for key, item in value.items())
    if isinstance(value, ATOMS):
        return value
    raise Strayed


def _copied(module: nn.Module, tensors: Mapping[int, Tensor]) -> nn.Module:
    """Return a copy without anybody's hooks; those of torch itself compute weights, and stay."""
    memo: dict[int, Any] = dict(tensors)
    for part in module.modules():
        # A forward that was set on the instance is a closure over the module itself.
        if isinstance(part, torch.jit.ScriptModule) or "forward" in vars(part):
            raise Strayed
        for name, value in vars(part).items():
            if "_hooks" in name and isinstance(value, dict):
                memo[id(value)] = type(value)((key, hook) for key, hook in value.items() if _is_torchs(hook))
    return copy.deepcopy(module, memo)


def _is_torchs(hook: Any) -> bool:
    return type(hook).__module__.startswith("torch.nn.utils.")


@contextmanager
def _aside(twin: nn.Module, devices: set[torch.device]) -> Iterator[None]:
    """Keep random numbers, printed text, global hooks and dispatch modes as they are."""
    numpy = sys.modules.get("numpy")
    pythons, numpys = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        with (
            torch.random.fork_rng([device.index for device in devices]),
            _muted(),
            _only(twin),
            _disable_current_modes(),
        ):
            yield
    finally:
        random.setstate(pythons)
        if numpy:
            numpy.random.set_state(numpys)


class _Mute:
    """A stream that swallows what the thread that made it writes; what others write passes."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, get_ident()

    def write(self, text: str) -> Any:
        """Write, or only say so."""
        return len(text) if get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _muted() -> Iterator[None]:
    """Swallow what this thread prints and logs, and its warnings."""
    streams, handle, thread = (sys.stdout, sys.stderr), logging.Logger.handle, get_ident()

    def handle_others(logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.thread != thread:
            handle(logger, record)

    # A process may have closed its streams.
    sys.stdout, sys.stderr = (stream and _Mute(stream) for stream in streams)
    logging.Logger.handle = handle_others  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        logging.Logger.handle = handle  # type: ignore[method-assign]


@contextmanager
def _only(twin: nn.Module) -> Iterator[None]:
    """Take the hooks of all modules away, and refuse this thread's calls of modules that are no part of the copy."""
    known, thread = set(map(id, twin.modules())), get_ident()

    def refuse(module: nn.Module, _args: Any) -> None:
        if id(module) not in known and get_ident() == thread:
            raise Strayed

    hooks = [getattr(torch_module, name) for name in GLOBAL_HOOKS]
    kept = [dict(entries) for entries in hooks]
    for entries in hooks:
        entries.clear()
    handle = torch_module.register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()
        for entries, before in zip(hooks, kept, strict=True):
            entries.update(before)
