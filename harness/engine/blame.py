"""Whose mistake is an exception: the user's, whose code we called, or our own?"""

from __future__ import annotations

import traceback
from pathlib import Path

import harness
from harness.engine import callouts

CALLOUTS = callouts.__file__

HARNESS = str(Path(harness.__file__).parent)

COLLECTIVES = ("torch/distributed/", "torch/nn/parallel/distributed.py")
"""Files of torch where a rank meets the others: an error that ends there came from another rank or the network."""

UNUSED = "parameters that were not used in producing loss"
"""What DistributedDataParallel says of a model whose loss does not reach every trainable parameter."""

INSTALLED = ("site-packages", "dist-packages", "<frozen ")
"""Marks of a file that nobody wrote for this workload."""


def is_users(error: BaseException, path: Path) -> bool:
    """Tell whether an exception comes from the user's file, or from what we called for him."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if any(part in files[-1] for part in COLLECTIVES):
        return UNUSED in str(error)
    return CALLOUTS in files or str(path) in files


def where(error: BaseException, path: Path) -> str:
    """Say what was raised and the last line of the user's own code that was involved."""
    name, line = _place(error, path)
    return _text(error) + (f" ({name}, line {line})" if line else "")


def _place(error: BaseException, path: Path) -> tuple[str, int | None]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename, path)]
    if frames:
        return Path(frames[-1].filename).name, frames[-1].lineno
    return path.name, getattr(error, "lineno", None)


def _is_own(filename: str, path: Path) -> bool:
    """Tell whether a file is the workload's or one beside it, which it may import."""
    beside = path.parent in Path(filename).parents and not any(mark in filename for mark in INSTALLED)
    return filename == str(path) or (beside and not filename.startswith(HARNESS))


def _text(error: BaseException) -> str:
    """Return kind and message; of an error that carries a worker's traceback, its last line."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}"
    text = str(error)
    return text.strip().splitlines()[-1] if "Original Traceback" in text else f"{type(error).__name__}: {text}"
