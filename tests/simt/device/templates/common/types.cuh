// Stands in for templates/common/types.cuh where a template is compiled for the CPU: the same, but for PTX.
#pragma once

#define load_shared ptx_load_shared
#include_next "templates/common/types.cuh"
#undef load_shared

__device__ __forceinline__ uint4 load_shared(u32 address) {
  return *static_cast<const uint4*>(simt::from_shared(address));
}
