"""How is a function of torch wrapped for a while, so that it can be put back whatever others did to it meanwhile?"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.utils._python_dispatch import _disable_current_modes

UNCHANGED = nullcontext()


class Switch:
    """A global hook of torch that can be turned on and off."""

    def __init__(self, register: Callable[..., Any], hook: Callable[..., None]) -> None:
        self.register, self.hook = register, hook
        self.handle: Any = None

    @property
    def is_on(self) -> bool:
        """Whether it is registered."""
        return self.handle is not None

    def turn(self, *, on: bool) -> None:
        """Register the hook, or remove it."""
        if on and self.handle is None:
            self.handle = self.register(self.hook)
        elif not on and self.handle is not None:
            self.handle.remove()
            self.handle = None


class Patches:
    """Wrapped functions; each calls its original alone while nobody waits for its event."""

    def __init__(self) -> None:
        self.listeners: dict[str, list[Callable[..., None]]] = {}
        """Who waits for which event now."""
        self.notes: list[str] = []
        """Calls in a form that was not understood."""
        self.is_traced = False
        """Whether torch.compile or torch.export may be tracing; to ask it in every call takes too long."""
        self._undo: list[Callable[[], None]] = []
        self._overrides: list[tuple[type, str, Callable[..., Any]]] = []

    def wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
        **when: Any,
    ) -> None:
        """Call ``before`` with a function's arguments and ``after`` with its result and them."""

        def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if before is not None:
                try:
                    before(*args, **kwargs)
                except Exception as error:  # a call in a form that we do not know must not break somebody's training
                    self._not_followed(error)
            result = original(*args, **kwargs)
            if after is not None:
                try:
                    after(result, *args, **kwargs)
                except Exception as error:  # as above
                    self._not_followed(error)
            return result

        self.replace(owner, name, call, **when)

    def replace(
        self,
        owner: Any,
        name: str,
        call: Callable[..., Any],
        event: str = "",
        only: Callable[[Any], bool] | None = None,
    ) -> None:
        """Let ``call`` take a function's place; it gets the original first.

        The original alone is called while nobody waits for ``event``, where ``only`` rejects the first argument, and
        where torch.compile traces it.
        """
        original = vars(owner).get(name)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if (
                (self.is_traced and is_compiling())
                or (event and not self.listeners[event])
                or (only and not only(args[0]))
            ):
                return original(*args, **kwargs)
            return call(original, *args, **kwargs)

        setattr(owner, name, wrapper)
        self._undo.append(functools.partial(_put_back, owner, name, wrapper))

    def override(self, owner: type, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Give a class its own form of a method that it inherits: what ``made`` makes of it."""
        inherited = getattr(owner, name)
        method = functools.wraps(inherited)(made(inherited))
        setattr(owner, name, method)
        self._overrides.append((owner, name, method))

    def withdraw(self) -> None:
        """Take the overrides back."""
        while self._overrides:
            owner, name, method = self._overrides.pop()
            if vars(owner).get(name) is method:
                delattr(owner, name)

    def undo(self) -> None:
        """Put everything back, the last one first."""
        self.withdraw()
        while self._undo:
            self._undo.pop()()

    def _not_followed(self, error: Exception) -> None:
        note = f"a call was not followed: {type(error).__name__}: {error}"
        self.notes += [] if note in self.notes else [note]


LEFT = "_left_by_gpu_exam"


def _put_back(owner: Any, name: str, wrapper: Any) -> None:
    """Undo a replacement; under somebody else's it stays without effect, and goes when that one goes."""
    setattr(wrapper, LEFT, True)
    if vars(owner).get(name) is wrapper:
        original = wrapper.__wrapped__
        while getattr(original, LEFT, False):
            original = original.__wrapped__
        setattr(owner, name, original)


def unseen() -> AbstractContextManager[Any]:
    """Return a context in which a script's own modes, as those that count operations, do not see the observers'."""
    if torch._C._len_torch_dispatch_stack():  # noqa: SLF001 - there is no public way to ask
        return _disable_current_modes()
    if torch._C._len_torch_function_stack():  # noqa: SLF001 - as above
        return torch._C.DisableTorchFunction()  # noqa: SLF001 - what torch.nn.parameter uses itself
    return UNCHANGED
