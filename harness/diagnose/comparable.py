"""May two runs be compared? Only when they differ in the declared part and in nothing else."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from harness.runs import Run

FACTS = (
    "workload_source",
    "data_hash",
    "model_shape",
    "sample_shape",
    "num_parameters",
    "num_trainable",
    "num_train",
    "num_val",
    "world_size",
    "device_kind",
    "device_name",
)
"""What must agree besides the spec: the same data, shapes and device."""

VERSIONS = ("torch", "cuda", "cudnn", "nccl", "driver", "python")
"""Entries of the environment whose change can change numbers or speed."""

IMPLIED = {
    "size": {"num_parameters", "num_trainable", "model_shape", "sample_shape", "data_hash", "num_train", "num_val"},
    "workload": {
        "workload_source",
        "num_parameters",
        "num_trainable",
        "model_shape",
        "sample_shape",
        "data_hash",
        "num_train",
        "num_val",
    },
    "devices": {"world_size"},
    "device": {"device_kind", "device_name"},
}
"""Facts that a declared part changes by itself."""

IGNORED = {"observe", "checkpoint_interval"}
"""Parts that never change the numbers of a run."""


def undeclared_differences(one: Run, other: Run, declared: Collection[str]) -> list[str]:
    """Return one line for each difference that was not declared: ``seed: 42 and 43``."""
    allowed = set(declared) | IGNORED
    for part in declared:
        allowed |= IMPLIED.get(part, set())
    pairs = [*_spec_pairs(one, other), *_fact_pairs(one, other), *_version_pairs(one, other)]
    return [f"{name}: {_shown(a)} and {_shown(b)}" for name, a, b in pairs if name not in allowed and a != b]


def _spec_pairs(one: Run, other: Run) -> list[tuple[str, Any, Any]]:
    a, b = _dict(one.start.get("spec")), _dict(other.start.get("spec"))
    return [(name, a.get(name), b.get(name)) for name in sorted({*a, *b})]


def _fact_pairs(one: Run, other: Run) -> list[tuple[str, Any, Any]]:
    return [(name, one.start.get(name), other.start.get(name)) for name in FACTS]


def _version_pairs(one: Run, other: Run) -> list[tuple[str, Any, Any]]:
    a, b = _versions(one), _versions(other)
    return [(f"version of {name}", a.get(name), b.get(name)) for name in VERSIONS]


def _versions(run: Run) -> dict[str, Any]:
    return _dict(run.start.get("environment"))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)[:100]
