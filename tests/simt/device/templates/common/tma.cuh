// Stands in for templates/common/tma.cuh on the CPU: the emulator copies boxes, later.
#pragma once

#include "templates/common/types.cuh"

#define TensorMap PtxTensorMap
#define tma_prefetch_descriptor ptx_tma_prefetch_descriptor
#define tma_load_5d ptx_tma_load_5d
#define tma_prefetch_5d ptx_tma_prefetch_5d
#define fence_async_proxy ptx_fence_async_proxy
#define fence_async_proxy_global ptx_fence_async_proxy_global
#include_next "templates/common/tma.cuh"
#undef TensorMap
#undef tma_prefetch_descriptor
#undef tma_load_5d
#undef tma_prefetch_5d
#undef fence_async_proxy
#undef fence_async_proxy_global

using TensorMap = simt::TensorMap;
static_assert(sizeof(TensorMap) == sizeof(PtxTensorMap) && alignof(TensorMap) == alignof(PtxTensorMap));

__device__ __forceinline__ void tma_prefetch_descriptor(const TensorMap& map) { simt::runtime->check_map(&map, 0); }

__device__ __forceinline__ void tma_load_5d(u32 destination, const TensorMap& map, u32 barrier, u64 policy, i32 c0,
                                            i32 c1, i32 c2, i32 c3, i32 c4) {
  const simt::BulkCopy copy = {destination, barrier, &map, 0, 5, {c0, c1, c2, c3, c4}, 0};
  simt::runtime->bulk_copy(&copy);
}

__device__ __forceinline__ void tma_prefetch_5d(const TensorMap& map, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
  simt::runtime->check_map(&map, 5);
}

__device__ __forceinline__ void fence_async_proxy() {}

__device__ __forceinline__ void fence_async_proxy_global() {}
