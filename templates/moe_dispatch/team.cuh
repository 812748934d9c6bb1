// The threads that take a row together, their columns, and the vectors in which they move it.
//
// Macros: those of shape.cuh; TEAM (a Team), WARPS, SPLITS (blocks that share a row's columns), VECTOR (bytes of a row
// that a lane reads at once), STREAM (1: what is written leaves the caches first).
#pragma once

#include "templates/common/reduce.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_dispatch/shape.cuh"

enum class Team { warp, block };
constexpr bool kOneTeam = Team::TEAM == Team::block;

constexpr int kWarps = WARPS, kThreads = kWarps * kWarpSize;
constexpr int kTeamThreads = kOneTeam ? kThreads : kWarpSize, kTeams = kThreads / kTeamThreads;
constexpr bool kStream = STREAM;

constexpr int kElements = VECTOR / 2, kWords = VECTOR / 4;             // of a vector
constexpr int kTile = ceil_div(ceil_div(kHidden, SPLITS), 128) * 128;  // columns of a block
constexpr int kSteps = ceil_div(min_of(kTile, kHidden), kElements* kTeamThreads);
constexpr int kGroupLanes = 128 / kElements;  // that hold 128 neighbouring values
static_assert(kHidden % kElements == 0 && kGroupLanes <= kWarpSize, "the space and the problem keep to both");
static_assert(kScale != Scale::token || SPLITS == 1, "a scale of a token needs its whole row");

using RowVector = VectorOf<VECTOR>;
constexpr int kOutBytes = kElements * (kNarrow ? 1 : 2);
using OutVector = VectorOf<kOutBytes>;

struct Place {
  int team = kOneTeam ? 0 : int(threadIdx.x) / kWarpSize;
  int thread = int(threadIdx.x) % kTeamThreads;
  int first = int(blockIdx.y) * kTile;
  int end = min_of(first + kTile, kHidden);

  // The first column of a thread's vector; `end` and more for none.
  __device__ __forceinline__ int column(int step) const { return first + (step * kTeamThreads + thread) * kElements; }
};

__device__ __forceinline__ float largest_magnitude(RowVector vector) {
  float largest = 0;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    float low, high;
    Bf16::unpack(vector.words[w], low, high);
    largest = fmaxf(largest, fmaxf(fabsf(low), fabsf(high)));
  }
  return largest;
}

// The largest value of all threads of a team. All threads of the block call it.
__device__ __forceinline__ float team_max(float value) {
  value = max_across<kWarpSize>(value);
  if constexpr (!kOneTeam) return value;
  __shared__ float maxima[kWarps];
  __syncthreads();  // the last row's have been read
  if (threadIdx.x % kWarpSize == 0) maxima[threadIdx.x / kWarpSize] = value;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) value = fmaxf(value, maxima[w]);
  return value;
}

// A vector of a row as it is written; `inverse` is that of its scale.
__device__ __forceinline__ OutVector out_vector(RowVector vector, float inverse) {
  OutVector out;
  if constexpr (kNarrow) {
#pragma unroll
    for (int w = 0; w < kWords; w += 2) {
      float a, b, c, d;
      Bf16::unpack(vector.words[w], a, b);
      Bf16::unpack(vector.words[w + 1], c, d);
      out.words[w / 2] = quantize_pair(a, b, inverse) | quantize_pair(c, d, inverse) << 16;
    }
  } else {
#pragma unroll
    for (int w = 0; w < kWords; ++w) out.words[w] = vector.words[w];
  }
  return out;
}
