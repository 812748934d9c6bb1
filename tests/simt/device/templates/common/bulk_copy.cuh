// Stands in for templates/common/bulk_copy.cuh on the CPU.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier,
                                          u64 policy) {
  const simt::BulkCopy copy = {destination, barrier, source, bytes, 0, {}, 0};
  simt::runtime->bulk_copy(&copy);
}
