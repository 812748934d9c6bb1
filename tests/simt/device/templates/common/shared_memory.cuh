// Stands in for templates/common/shared_memory.cuh on the CPU: every block has a buffer of its own, filled with 0xCD
// when the block starts. What lies past its end is a canary, then a page that cannot be touched.
#pragma once

#include "templates/common/types.cuh"

__device__ __forceinline__ u8* dynamic_shared() { return simt::current->dynamic_shared; }
