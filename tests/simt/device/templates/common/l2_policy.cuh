// Stands in for templates/common/l2_policy.cuh on the CPU, where a policy is nothing.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ u64 l2_policy(bool evict_first) { return 0; }

__device__ __forceinline__ void prefetch_to_l2(const void* address) {}
