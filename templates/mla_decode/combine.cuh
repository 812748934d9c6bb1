// The parts of a row's tokens put together: their outputs weighted by their log-sum-exps.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/global_sync.cuh"
#include "templates/common/reduce.cuh"
#include "templates/mla_decode/shape.cuh"

// Pairs of a row's columns, kStride columns from one to the next. Parts are added in their order, so that the result is
// the same in every run.
template <int kColumns, int kStride>
struct Combined {
  float maximum = lowest(), sum = 0, total[kColumns] = {};

  // `row_of` says where a part lies among the partial results. `columns` is partial_o at the first pair.
  template <typename RowOf>
  __device__ __forceinline__ void add(const float* columns, const float* partial_lse, int count, const RowOf& row_of) {
    constexpr int kBatch = 32 / kColumns;  // parts whose loads are under way
    for (int begin = 0; begin < count; begin += kBatch) {
      float parts[kBatch];
      float2 values[kBatch][kColumns / 2];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const auto row = row_of(min_of(begin + i, count - 1));
        parts[i] = load_past_l1(partial_lse + row);
#pragma unroll
        for (int pair = 0; pair < kColumns / 2; ++pair) {
          values[i][pair] =
              load_past_l1(reinterpret_cast<const float2*>(columns + row * kLatent) + pair * (kStride / 2));
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (begin + i >= count) break;
        const float highest = fmaxf(maximum, parts[i]);
        const float keep = exp2_fast(maximum - highest), take = exp2_fast(parts[i] - highest);
        maximum = highest;
        sum = keep * sum + take;
#pragma unroll
        for (int pair = 0; pair < kColumns / 2; ++pair) {
          total[2 * pair] = keep * total[2 * pair] + take * values[i][pair].x;
          total[2 * pair + 1] = keep * total[2 * pair + 1] + take * values[i][pair].y;
        }
      }
    }
  }

  __device__ __forceinline__ void store(Element* o) const {
    const float inverse = inverse_of(sum);
    u32* const to = reinterpret_cast<u32*>(o);
#pragma unroll
    for (int pair = 0; pair < kColumns / 2; ++pair) {
      to[pair * (kStride / 2)] = Element::pack(total[2 * pair] * inverse, total[2 * pair + 1] * inverse);
    }
  }

  __device__ __forceinline__ float logarithm() const { return (maximum + log2_fast(sum)) * kLn2; }
};
