// Stands in for templates/common/settle.cuh on the CPU, where a value is there when it is computed.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ void settle(u64 value) {}

template <typename... Parameters>
__device__ __forceinline__ void settle_parameters(Parameters... parameters) {}
