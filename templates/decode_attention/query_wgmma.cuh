// The staged query rows as wgmma reads them.
#pragma once

#include "templates/common/wgmma.cuh"
#include "templates/decode_attention/query.cuh"

class Query {
 public:
  __device__ __forceinline__ Query(u32 shared, const LaneOffsets&) : address_(shared + kQueryOffset) {}

  // The rows' 16 dimensions of a step.
  __device__ __forceinline__ u64 matrix(int step) const {
    return WgmmaMatrix::rows(address_ + step / 4 * kQueryChunkBytes + step % 4 * 32);
  }

 private:
  u32 address_;
};
