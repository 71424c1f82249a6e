"""Traces that tests write themselves: a few steps of a training, in the form of the PyTorch profiler."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SGEMM, HALF_GEMM = "ampere_sgemm_128x64_tn", "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


@dataclass
class Made:
    """Events in microseconds; each piece of device work has its launch."""

    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 100

    def host(self, name: str, start: float, end: float, category: str = "cpu_op") -> Made:
        """Add what the host does."""
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": end - start}
        )
        return self

    def step(self, number: int, start: float, end: float) -> Made:
        """Add a step that the profiler was told of."""
        return self.host(f"ProfilerStep#{number}", start, end, "user_annotation")

    def work(
        self, name: str, start: float, end: float, *, launched: float, category: str = "kernel", stream: int = 7
    ) -> Made:
        """Add a kernel or a copy, and its launch."""
        self.correlation += 1
        ids = {"correlation": self.correlation}
        call = "cudaMemcpyAsync" if "mem" in category else "cudaLaunchKernel"
        self.events += [
            {"ph": "X", "cat": "cuda_runtime", "name": call, "ts": launched, "dur": 1, "pid": 1, "tid": 1, "args": ids},
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "ts": start,
                "dur": end - start,
                "pid": 0,
                "tid": stream,
                "args": ids | {"device": 0, "stream": stream},
            },
        ]
        return self

    def as_file(self) -> dict[str, Any]:
        """Return the content of a file."""
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "A GPU"}],
            "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
            "traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}, *self.events],
        }

    def write(self, path: Path) -> Path:
        """Write it as JSON."""
        path.write_text(json.dumps(self.as_file()), encoding="utf-8")
        return path


def steps(num: int = 21, length: float = 1000.0, **parts: tuple[float, float]) -> Made:
    """Return equal steps, as many as make a training; each part of one is (begin, end) as shares of it.

    ``compute``, ``simt``, ``communication`` and ``copy`` are device work; ``loading``, ``allocating`` and ``waiting``
    what the host does.
    """
    made = Made()
    for number in range(num):
        at = 1e6 + number * length
        made.step(number, at, at + length)
        made.host("aten::mm", at, at + length)
        for part, (begin, end) in parts.items():
            low, high = at + begin * length, at + end * length
            match part:
                case "compute":
                    made.work(HALF_GEMM, low, high, launched=low - 2)
                case "simt":
                    made.work(SGEMM, low, high, launched=low - 2)
                case "communication":
                    made.work(REDUCE, low, high, launched=low - 2, stream=20)
                case "copy":
                    made.work("Memcpy HtoD (Pageable -> Device)", low, high, launched=low - 2, category="gpu_memcpy")
                case "loading":
                    made.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", low, high)
                case "allocating":
                    made.host("cudaMalloc", low, high, "cuda_runtime")
                case "waiting":
                    made.host("cudaStreamSynchronize", low, high, "cuda_runtime")
    return made
