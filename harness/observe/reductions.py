"""Are sums, means and norms accumulated in a format that cannot hold them?

A dispatch mode repeats every 16-bit reduction in float64 and follows scalars that are added up one
by one. The backward pass is left out: its overflows are the loss scaler's business. This costs more
than a few per cent, so it is only on when all observers are asked for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from harness.observe.base import Observer
from harness.observe.updates import HALF

aten = torch.ops.aten
SUMS = {aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.cumsum.default}
NORMS = {aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim}
ADDS = {aten.add.Tensor, aten.add_.Tensor}

MAX_ELEMENTS = 2**22
"""Larger tensors are not repeated in float64: 32 MiB of scratch is the most that the observer may take."""

PACKAGES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    str(Path(__file__).parent.parent / "faults"),
)
"""Code that is never named as the place of a reduction: torch, the observers, and injected faults."""


class Reductions(Observer, TorchDispatchMode):
    """The largest error of a 16-bit reduction against the same reduction in float64.

    ``reduction_error``  |result - exact| / (the same reduction over absolute values); inf when only the
                         16-bit result is not finite; 0 when no 16-bit reduction was seen
    ``reduction_site``   the operation with the largest error, and the file and line that called it
    """

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[tuple[str, Tensor, Tensor, Tensor]] = []
        self.exact: Any = WeakIdKeyDictionary()
        self.worst: tuple[float, str] | None = None

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch._C._current_graph_task_id() != -1:  # noqa: SLF001 - the only way to tell a backward pass
            return func(*args, **kwargs)
        before = self._shadows(args) if func in ADDS else None
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.dtype in HALF:
            if before is not None and result.numel() == 1:
                self._follow_add(func, result, before, kwargs)
            elif func in SUMS or func in NORMS:
                self._repeat(func, result, args, kwargs)
        return result

    def summary(self) -> dict[str, Any]:
        """Return the worst error and its place."""
        for site, result, exact, size in self.pending:
            error = _error(float(result), float(exact), float(size))
            if self.worst is None or error > self.worst[0]:
                self.worst = (error, site)
        self.pending = []
        error, site = self.worst or (0.0, "")
        return {"reduction_error": error, "reduction_site": site}

    def _repeat(self, func: Any, result: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        source = args[0]
        if not result.numel() < source.numel() <= MAX_ELEMENTS and func is not aten.cumsum.default:
            return
        wide = source.detach().double()
        options = {k: v for k, v in kwargs.items() if k != "dtype"}
        exact = func(wide, *args[1:], **options)
        size = exact if func in NORMS else func(wide.abs(), *args[1:], **options)
        self._keep(func, result, exact, size)

    def _follow_add(self, func: Any, result: Tensor, before: tuple[Tensor, Tensor], kwargs: dict[str, Any]) -> None:
        (one, one_size), (other, other_size) = before
        alpha = kwargs.get("alpha", 1)
        exact, size = one + alpha * other, one_size + abs(alpha) * other_size
        self.exact[result] = (exact, size)
        self._keep(func, result, exact, size)

    def _shadows(self, args: tuple[Any, ...]) -> Any:
        """Return (exact value, sum of absolute values) of both addends, when both are single numbers."""
        pairs = [self._shadow(value) for value in args[:2]]
        return pairs if len(pairs) == 2 and all(pair is not None for pair in pairs) else None

    def _shadow(self, value: Any) -> tuple[Tensor, Tensor] | None:
        if not isinstance(value, Tensor):
            exact = torch.tensor(float(value), dtype=torch.float64)
            return exact, exact.abs()
        if value.numel() != 1 or not value.is_floating_point():
            return None
        known: tuple[Tensor, Tensor] | None = self.exact.get(value)
        exact = value.detach().double().reshape(())
        return known or (exact, exact.abs())

    def _keep(self, func: Any, result: Tensor, exact: Tensor, size: Tensor) -> None:
        difference = (result.detach().double().reshape(-1) - exact.reshape(-1)).abs() / size.reshape(-1).clamp_min(
            1e-300
        )
        at = difference.nan_to_num(nan=float("inf")).argmax()
        worst, true, scale = (t.detach().reshape(-1)[at] for t in (result, exact, size))
        self.pending.append((f"{func.overloadpacket.__name__} at {_caller()}", worst, true, scale))


def _error(result: float, exact: float, size: float) -> float:
    if not math.isfinite(exact):
        return 0.0
    error = abs(result - exact) / max(size, 1e-300)
    return error if math.isfinite(error) else math.inf


def _caller() -> str:
    """Return file:line of the nearest frame outside torch and the observers."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to read a caller's line without a traceback
    while frame is not None and frame.f_code.co_filename.startswith((*PACKAGES, "<")):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "unknown"


def watching(observers: list[Observer]) -> Callable[[], Any]:
    """Return the dispatch mode among the observers as a context, or a context that does nothing."""
    from contextlib import nullcontext

    modes = [observer for observer in observers if isinstance(observer, Reductions)]
    return lambda: modes[0] if modes else nullcontext()
