"""Is a kernel recognised by its name, from Volta on and on AMD, and is it said when the name does not tell?"""

from __future__ import annotations

import pytest

from harness.trace.kernels import is_communication, is_matrix, units_of

UNITS = {
    "volta_sgemm_128x64_nn": "simt",
    "volta_scudnn_128x64_relu_interior_nn_v1": "simt",
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int)": "simt",
    "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)": "simt",
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": "half",
    "volta_h884gemm_64x64_ldg8_tn": "half",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn": "half",
    "turing_h1688gemm_128x128_ldg8_stages_32x1_nn": "half",
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn": "half",
    "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn": "half",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4>(Params)": "tf32",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128": "tf32",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": "half",
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT": "half",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)": "half",
    "Cijk_Alik_Bljk_BBS_BH_MT128x128x64_MI32x32x8_SN_1LDSB0": "half",
    "Cijk_Ailk_Bljk_HHS_BH_MT64x64x32_MI16x16x16x1_SE": "half",
    "Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1": "simt",
    "attn_fwd": "unknown",
}


@pytest.mark.parametrize(("name", "units"), UNITS.items())
def test_on_which_units_a_product_runs(name: str, units: str) -> None:
    """By the shape of the instruction or the formats in the name."""
    assert is_matrix(name)
    assert not is_communication(name)
    assert units_of(name) == units


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void rccl_main_kernel_1(ncclDevComm*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*)",
        "void deep_ep::internode::dispatch<false, 4>(int4*)",
        "void nvshmemi_proxy_kernel()",
        "void mscclpp::allreduce(int)",
    ],
)
def test_communication(name: str) -> None:
    """Of all libraries that are in use."""
    assert is_communication(name)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half> >(int)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)",
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, true, false>(params)",
        "void split_embedding_codegen_forward_unweighted_kernel<c10::Half, float>(int)",
        "void fbgemm_gpu::permute_indices_weights_kernel<false, int>(int)",
        "triton_poi_fused_add_0",
    ],
)
def test_what_is_neither(name: str) -> None:
    """Elementwise work, normalisations, changes of layout, tables."""
    assert not is_matrix(name)
    assert not is_communication(name)
