"""Are sums, means and norms accumulated in a format that cannot hold them?

A dispatch mode repeats every 16-bit reduction in float64 and follows scalars and short vectors that are added
up one by one. The backward pass is left out: its overflows are the loss scaler's business. This costs more
than a few per cent, so it is only on when all observers are asked for. What must see every operation
shares this mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from harness.observe.base import Observer
from harness.observe.casts import Casts
from harness.observe.formats import HALF, MANTISSA_BITS
from harness.observe.overflows import Overflows, on_host
from harness.observe.shadows import LONG, SMALLEST, Shadow, relative_error, shadow_of
from harness.observe.sites import caller

aten = torch.ops.aten
SUMS = {aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.cumsum.default}
NORMS = {aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim}
ADDS = {aten.add.Tensor, aten.add_.Tensor}
COPIES = {aten.detach.default, aten.alias.default, aten.clone.default}

MAX_ELEMENTS = 2**22
"""Larger tensors are not repeated in float64: 32 MiB of scratch is the most that the observer may take."""

MAX_PENDING = 1000
"""Reductions kept on the device before they are looked at: looking waits for it."""


MAX_VECTOR = 2**16
"""Elements of a vector that is followed from sum to sum: a running sum for each sample of a batch is far shorter."""


class Reductions(Observer, TorchDispatchMode):
    """The largest error of a 16-bit reduction against the same reduction in float64.

    ``reduction_error``  |result - exact| / (the same reduction over absolute values), beyond the format's
                         smallest number; inf when only the 16-bit result is not finite; 0 when no 16-bit
                         reduction was seen
    ``reduction_site``   the operation with the largest error, and the file and line that called it
    ``overflow_site``    the first operation with an fp16 result that left the range, and its place; empty if none
    ``train_op_bits``, ``eval_op_bits``  fewest mantissa bits of any result with and without gradients
    """

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[tuple[str, Tensor]] = []
        self.exact: Any = WeakIdKeyDictionary()
        self.worst = (0.0, "")
        self.overflows = Overflows(caller)
        self.casts = Casts()
        self.bits: dict[str, int | None] = {"train_op_bits": None, "eval_op_bits": None}
        self.failure: Exception | None = None

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # The task id is the only way to tell a backward pass.
        if self.failure is not None or torch._C._current_graph_task_id() != -1:  # noqa: SLF001
            return func(*args, **kwargs)
        before = self._guarded(self._shadows, args) if func in ADDS else None
        result = func(*args, **kwargs)
        self._guarded(self._look, func, result, args, kwargs, before)
        return result

    def _guarded(self, look: Callable[..., Any], *args: Any) -> Any:
        """Look, and never raise into somebody's operation; ``read`` says later what went wrong."""
        try:
            return look(*args)
        except Exception as error:  # an observer must never end somebody's training
            self.failure = error
            return None

    def read(self) -> list[dict[str, Any]]:
        """Look at what was kept; there are no samples."""
        self._settle()
        return []

    def summary(self) -> dict[str, Any]:
        """Return the worst error and its place, and the first overflow."""
        self._settle()
        error, site = self.worst
        return {"reduction_error": error, "reduction_site": site, "overflow_site": self.overflows.site, **self.bits}

    def _look(self, func: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], before: Any) -> None:
        if args and isinstance(args[0], Tensor) and func._schema.is_mutable:  # noqa: SLF001 - tells that an input is written to
            self.exact.pop(args[0], None)
        if isinstance(result, tuple) and result:
            # Attention and norms give their output first.
            result = result[0]
        if not isinstance(result, Tensor) or result.dtype not in MANTISSA_BITS:
            return
        name = "train_op_bits" if torch.is_grad_enabled() else "eval_op_bits"
        self.bits[name] = min(MANTISSA_BITS[result.dtype], self.bits[name] or 64)
        self.overflows.look(func, args, result)
        self.casts.look(func, args, result)
        if result.dtype not in HALF:
            return
        if before is not None and all(shadow.exact.numel() in {1, result.numel()} for shadow in before):
            self._follow_add(func, result, before, kwargs)
        elif func in SUMS or func in NORMS:
            self._repeat(func, result, args, kwargs)
        elif func in COPIES and args[0] in self.exact:
            self.exact[result] = self.exact[args[0]]

    def _settle(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.overflows.settle()
        errors = on_host([error for _, error in self.pending])
        for (site, _), error in zip(self.pending, errors, strict=True):
            self.worst = max(self.worst, (error, site), key=lambda worst: worst[0])
        self.pending = []

    def _repeat(self, func: Any, result: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        source = args[0]
        if not result.numel() < source.numel() <= MAX_ELEMENTS and func is not aten.cumsum.default:
            return
        wide = source.detach().double()
        options = {k: v for k, v in kwargs.items() if k != "dtype"}
        exact = func(wide, *args[1:], **options)
        size = exact if func in NORMS else func(wide.abs(), *args[1:], **options)
        self._keep(func, result, exact, size)

    def _follow_add(self, func: Any, result: Tensor, before: list[Shadow], kwargs: dict[str, Any]) -> None:
        one, other = before
        alpha = kwargs.get("alpha", 1)
        sum_ = Shadow(
            one.exact + alpha * other.exact,
            one.size + abs(alpha) * other.size,
            max(one.length, other.length) + 1,
        )
        if sum_.exact.numel() != result.numel():
            return
        self.exact[result] = sum_
        if result.numel() == 1 or sum_.length >= LONG:
            self._keep(func, result.reshape(-1), sum_.exact, sum_.size)

    def _shadows(self, args: tuple[Any, ...]) -> list[Shadow] | None:
        """Return what both addends are exactly, when they are numbers or vectors that may be a sum in the making."""
        shadows = [shadow for shadow in map(self._shadow, args[:2]) if shadow is not None]
        return shadows if len(shadows) == 2 else None

    def _shadow(self, value: Any) -> Shadow | None:
        if not isinstance(value, Tensor):
            return shadow_of(torch.tensor(float(value), dtype=torch.float64))
        if value.numel() > MAX_VECTOR or not value.is_floating_point() or value.layout != torch.strided:
            return None
        known: Shadow | None = self.exact.get(value)
        return known or shadow_of(value)

    def _keep(self, func: Any, result: Tensor, exact: Tensor, size: Tensor) -> None:
        """Keep the largest error as a number of its own: the result may be changed in place later."""
        error = relative_error(result.detach().double(), exact, size, SMALLEST[result.dtype])
        self.pending.append((f"{func.overloadpacket.__name__} at {caller()}", error))
        if len(self.pending) >= MAX_PENDING:
            self._settle()
