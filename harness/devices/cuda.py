"""One NVIDIA GPU as a device: NCCL, the caching allocator's statistics and limits."""

from __future__ import annotations

import torch


class CudaDevice:
    """The GPU of one rank; the launcher has already restricted which GPUs are visible."""

    kind = "cuda"
    backend = "nccl"

    def __init__(self, local_rank: int) -> None:
        self.local_rank = local_rank
        torch.cuda.set_device(local_rank)

    @property
    def torch_device(self) -> torch.device:
        """Where tensors go."""
        return torch.device("cuda", self.local_rank)

    def name(self) -> str:
        """Return the GPU's model name."""
        return torch.cuda.get_device_name(self.local_rank)

    def refuses(self, precision: str) -> str:
        """Tensor Cores compute in TF32 and BF16 from compute capability 8.0 on (CUDA programming guide)."""
        major, minor = torch.cuda.get_device_capability(self.local_rank)
        if precision in {"tf32", "bf16"} and major < 8:
            return f"precision {precision} needs compute capability 8.0; {self.name()} has {major}.{minor}"
        return ""

    def synchronize(self) -> None:
        """Wait until all queued kernels are done."""
        torch.cuda.synchronize(self.local_rank)

    def limit_memory(self, limit_bytes: int) -> None:
        """Bound the caching allocator of this process."""
        total = torch.cuda.get_device_properties(self.local_rank).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total), self.local_rank)

    def start_peak(self) -> None:
        """Reset the allocator's peak counters."""
        torch.cuda.reset_peak_memory_stats(self.local_rank)

    def peak_bytes(self) -> int:
        """Return the most bytes that tensors held at one time."""
        return torch.cuda.max_memory_allocated(self.local_rank)


def make(local_rank: int) -> CudaDevice:
    """Return the device of one rank."""
    return CudaDevice(local_rank)
