// kv_transfer by vector loads and stores: a thread reads FLIGHT units before it writes the first, and blocks take tiles
// of THREADS * FLIGHT units in turn. A unit is 16 bytes of the wider end, in one row.
//
// Macros: those of shape.cuh, THREADS, FLIGHT, HINT (1: what is read and written is the first to leave the caches).
#pragma once

#include "templates/common/quantize.cuh"
#include "templates/common/settle.cuh"
#include "templates/common/vectors.cuh"
#include "templates/kv_transfer/shape.cuh"

constexpr int kElements = 16 / int(max_of(sizeof(Source), sizeof(Target)));
constexpr int kRowUnits = kWidth / kElements, kPageUnits = kRowUnits * kRows;
constexpr int kTile = THREADS * FLIGHT;
static_assert(kWidth % kElements == 0, "the problem keeps to it");

template <typename Element>
using UnitOf = VectorOf<kElements* int(sizeof(Element))>;

struct Unit {
  const Source* from;  // null: nothing is moved
  Target* to;
  int scale;
};

__device__ __forceinline__ Unit unit_of(const End<const Source>& from, const End<Target>& to, u32 index) {
  const u32 copy = index / kPageUnits, within = index % kPageUnits;
  const int plane = int(copy % kPlanes), page = int(copy / kPlanes), row = int(within / kRowUnits),
            column = int(within % kRowUnits) * kElements;
  const Source* const source = from.page_at(plane, page);
  Target* const target = to.page_at(plane, page);
  const bool moves = source != nullptr && target != nullptr;
  return {moves ? source + from.row_at(row) + column : nullptr, target + to.row_at(row) + column, scale_at(plane, row)};
}

__device__ __forceinline__ UnitOf<Source> read_unit(const Source* from) {
  constexpr int kBytes = kElements * int(sizeof(Source));
  return HINT ? load_vector_once<kBytes>(from) : load_vector<kBytes>(from);
}

// Two e4m3, whose NaN stays one: before sm_89 it is widened to 480, which no other value is.
__device__ __forceinline__ void widen_pair(u32 pair, float& low, float& high) {
  Fp16::unpack(widen_e4m3x2(pair), low, high);
#if __CUDA_ARCH__ < 890
  if (fabsf(low) == 480.0f) low = __uint_as_float(0x7fffffffu);
  if (fabsf(high) == 480.0f) high = __uint_as_float(0x7fffffffu);
#endif
}

// value = e4m3 * scale.
template <typename From, typename To>
__device__ __forceinline__ UnitOf<To> converted(UnitOf<From> from, float scale) {
  if constexpr (sizeof(From) == sizeof(To)) {
    return from;
  } else if constexpr (sizeof(From) == 1) {
    UnitOf<To> to;
#pragma unroll
    for (int w = 0; w < kElements / 2; ++w) {
      float low, high;
      widen_pair(from.words[w / 2] >> (w % 2 * 16), low, high);
      to.words[w] = To::pack(__fmul_rn(low, scale), __fmul_rn(high, scale));
    }
    return to;
  } else {
    const float inverse = inverse_of(scale);
    UnitOf<To> to;
#pragma unroll
    for (int w = 0; w < kElements / 4; ++w) {
      float values[4];
      From::unpack(from.words[2 * w], values[0], values[1]);
      From::unpack(from.words[2 * w + 1], values[2], values[3]);
      to.words[w] = quantize_pair(values[0], values[1], inverse) | quantize_pair(values[2], values[3], inverse) << 16;
    }
    return to;
  }
}

__device__ __forceinline__ void move_by_vectors(const End<const Source>& from, const End<Target>& to,
                                                const float* scales, int pages) {
  const u32 units = u32(pages) * kPlanes * kPageUnits;
  // Behind the wait for the kernel in front, as all addresses follow from it.
  const u32 first = u32(needed_now(int(blockIdx.x))) * kTile + threadIdx.x;
  for (u32 begin = first; begin - threadIdx.x < units; begin += gridDim.x * kTile) {
    Unit all[FLIGHT];
    UnitOf<Source> read[FLIGHT];
#pragma unroll
    for (int f = 0; f < FLIGHT; ++f)  // past the end the last one's place, to wait for all lists at once
      all[f] = unit_of(from, to, min_of(begin + f * THREADS, units - 1));
#pragma unroll
    for (int f = 0; f < FLIGHT; ++f) {
      if (begin + f * THREADS >= units) all[f].from = nullptr;
      if (all[f].from != nullptr) read[f] = read_unit(all[f].from);
    }
#pragma unroll
    for (int f = 0; f < FLIGHT; ++f) {
      if (all[f].from == nullptr) continue;
      const float scale = kConverts ? scales[all[f].scale] : 1.0f;
      store_vector<HINT>(all[f].to, converted<Source, Target>(read[f], scale));
    }
  }
}
