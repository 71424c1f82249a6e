"""What does a kernel do? Read from its name: communication, or a matrix product, and on which units of the chip."""

from __future__ import annotations

import re
from typing import Literal

Units = Literal["half", "tf32", "simt", "unknown"]
"""Which units multiply: Tensor Cores (or AMD's matrix cores) in 16 bits or less, in TF32, or ordinary lanes."""

COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|deep_?ep|nvshmem|(cross_device|one_?shot|two_?shot|multimem|custom)_?(all_?)?reduce"
    r"|userbuffers_|allreduce_kernel|all_?gather_kernel",
    re.IGNORECASE,
)
"""NCCL and RCCL of all versions, MSCCL, the custom all-reduces of inference engines, DeepEP and NVSHMEM."""

NO_MATRIX = re.compile(
    r"at::native|embedding|fbgemm_gpu::|cub::|n(chw|hwc)To|tensorTransform|elementwise|reduce_kernel|bn_[bf]w|batch_?norm"
    r"|layer_?norm|softmax|epilogue::impl|computeOffsets|im2col|scalePackedTensor|convertTensor|pooling",
    re.IGNORECASE,
)
"""What carries a product in its name, or in the types of its arguments, and is none."""

MATRIX = re.compile(
    r"gemm|gemv|cutlass|nvjet|xmma|winograd|convolve|implicit|dgrad|wgrad|fprop|scudnn|fmha|flash_|_mha|attn_|attention"
    r"|Cijk_|_mfma|ck_tile|hmma|imma",
    re.IGNORECASE,
)
"""Matrix products, convolutions and attention: what Tensor Cores are for."""

TF32 = re.compile(r"tf32|(?<!p16_)(?<!f16_)s1688", re.IGNORECASE)
"""s1688 is the mma shape of TF32 where no 16-bit format stands before it, as it does on Turing."""

AMD_HALF = re.compile(r"Cijk_\w+?_(HHS|HSS|HH|H|BBS|BSS|BB|B|F8|B8)_\w*MI\d")
"""hipBLASLt: the types of its operands, and MI for a matrix instruction."""

HALF = re.compile(
    r"[his](884|8816|16832)|h(1688|16816)|bf16|fp16|f16|half|e4m3|e5m2|fp8|hgemm|hmma|imma|nvjet_(hs|ts|q|o)"
    r"|flash_(fwd|bwd)_|__nv_bfloat16",
    re.IGNORECASE,
)
"""Products in 16 bits or less: mma shapes (884 of Volta, h1688 of Turing, h16816 of Ampere), and formats."""

SIMT = re.compile(
    r"sgemm|dgemm|scudnn|simt|ffma|gemv|(dgrad|wgrad|conv|winograd)\w*<float|winograd\w*::\w+<float"
    r"|Cijk_\w+?_SB?_(?!\w*MI\d)",
    re.IGNORECASE,
)
"""Products on ordinary lanes: what cuBLAS and cuDNN call sgemm and scudnn, and engines of fp32 without a mma shape."""


def is_communication(name: str) -> bool:
    """Whether the kernel moves data between devices."""
    return bool(COMMUNICATION.search(name))


def is_matrix(name: str) -> bool:
    """Whether the kernel is a matrix product, a convolution or an attention."""
    return bool(MATRIX.search(name)) and not NO_MATRIX.search(name.partition("(")[0])


def units_of(name: str) -> Units:
    """Return on which units a matrix product runs; unknown where the name does not say."""
    if TF32.search(name):
        return "tf32"
    if HALF.search(name) or AMD_HALF.search(name):
        return "half"
    return "simt" if SIMT.search(name) else "unknown"
