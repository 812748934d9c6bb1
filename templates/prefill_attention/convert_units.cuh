// Queries, keys and values as the matrix instructions take them, 8 elements (16 bytes) at a time.
#pragma once

#include "templates/common/widen.cuh"
#include "templates/prefill_attention/shape.cuh"

// 8 e4m3 as fp16.
__device__ __forceinline__ uint4 widened_unit(uint2 raw) {
  const uint2 low = widen_e4m3x4(raw.x), high = widen_e4m3x4(raw.y);
  return make_uint4(low.x, low.y, high.x, high.y);
}

// Two elements of a query.
__device__ __forceinline__ u32 query_pair(u32 pair) {
  float low, high;
  Element::unpack(pair, low, high);
  return Fp16::pack(low, high);
}

__device__ __forceinline__ uint4 converted_queries(uint4 unit) {
  return make_uint4(query_pair(unit.x), query_pair(unit.y), query_pair(unit.z), query_pair(unit.w));
}
