// The packed query rows of a block, staged in shared memory as the matrix instructions read them.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/cp_async.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/tma.cuh"
#include "templates/decode_attention/arguments.cuh"

// The lane's part of the addresses that ldmatrix takes, for the four 32-byte steps of a 128-byte row.
struct LaneOffsets {
  u32 row[4];     // Q, and V transposed: matrices go down 8 rows, then right 16 bytes
  u32 column[4];  // K: matrices go right 16 bytes, then down 8 rows

  __device__ __forceinline__ LaneOffsets() {
    const u32 lane = threadIdx.x % kWarpSize, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
      row[step] = (middle * 8 + low) * 128 + ((high ^ low ^ 2 * step) << 4);
      column[step] = (high * 8 + low) * 128 + ((middle ^ low ^ 2 * step) << 4);
    }
  }
};

// Two neighbouring elements as the matrix instructions take them.
__device__ __forceinline__ u32 to_math(u32 pair) {
  if constexpr (sizeof(KvElement) == sizeof(Element)) return pair;
  return Math::pack(Element::to_float({static_cast<u16>(pair)}), Element::to_float({static_cast<u16>(pair >> 16)}));
}

// Unit `unit` of a row as it is staged. Where K is narrow, a lane's 32 bits of a 16x8 fragment hold 4
// neighbours of 16 instead of 2 and the 2 that lie 8 further; the query's elements are permuted to match.
__device__ __forceinline__ uint4 staged_unit(const uint4* row, int unit) {
  if constexpr (!kNarrow) return row[unit];
  const uint4 low = row[unit / 2 * 2], high = row[unit / 2 * 2 + 1];
  return unit % 2 == 0 ? make_uint4(to_math(low.x), to_math(low.z), to_math(high.x), to_math(high.z))
                       : make_uint4(to_math(low.y), to_math(low.w), to_math(high.y), to_math(high.w));
}

// A persistent block's queries come by themselves where they need no converting, and no fence by who asked.
constexpr bool kQueryAsync = kPersistent && !kNarrow && !kWgmma;

// Rows past the block's own become zeros. Called by `threads` threads; the caller synchronizes, and where
// kQueryAsync also waits for what each of them has under way.
__device__ __forceinline__ void stage_query(u8* shared, const Queries& queries, const Work& work, int thread,
                                            int threads) {
  constexpr int kUnits = kHeadDim / 8;  // 16-byte units a row
  const u32 base = kQueryAsync ? in_vector_register(shared_address(shared + kQueryOffset)) : 0;
  for (int i = thread; i < 16 * kRowTiles * kUnits; i += threads) {
    const int row = i / kUnits, unit = i % kUnits;
    const bool own = row < work.rows;
    const int offset = unit / 8 * kQueryChunkBytes + row * 128 + ((unit % 8 ^ row % 8) << 4);
    if constexpr (kQueryAsync) {
      const Element* source = queries.q + work.row_offset(queries.strides, own ? row : 0) + unit * 8;
      cp_async_16(base + offset, source, own, l2_policy(false));
      continue;
    }
    uint4 value = make_uint4(0, 0, 0, 0);
    if (own) {
      const Element* source = queries.q + work.row_offset(queries.strides, row);
      value = staged_unit(reinterpret_cast<const uint4*>(source), unit);
    }
    *reinterpret_cast<uint4*>(shared + kQueryOffset + offset) = value;
  }
  if constexpr (kWgmma) fence_async_proxy();
}
