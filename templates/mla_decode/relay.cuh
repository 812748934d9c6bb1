// The shared memory of a block of body_relay.cuh, and its place in a cluster.
#pragma once

#include "templates/common/cluster.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/mla_decode/gather.cuh"

static_assert(kRows == 64, "one wgmma has 64 rows");

constexpr int kBoxTokens = min_of(kPage, kTile);  // of one copy
constexpr int kBoxes = kTile / kBoxTokens;
constexpr int kMathThreads = 384;
constexpr int kColumns = 256;  // of the latent, a warpgroup
constexpr int kSteps = kTile / 16;
constexpr bool kGathers = GATHERS;  // rows are not the copy engine's
constexpr int kThirds = kGathers ? 1 : 3, kThirdChunks = kChunks / kThirds;
constexpr int kBarriers = kThirds + 2;  // of a stage
constexpr int kPair = PAIR, kParts = PARTS, kCluster = kPair * kParts;
constexpr int kShare = kColumns / 8 / kParts;  // pieces of 8 columns that a part puts together, of a warpgroup's

using Copies = TileCopies<128>;
constexpr int kAhead = kNarrow ? STAGES : kStages - 1;  // tiles that are asked for before the first is waited for

// Shared memory: the tiles; the latent part of the queries as [chunk][row][128 bytes], behind which lies as much as
// products read of 64 rows, uninitialized; raw tiles of a narrow latent; P of each stage as the lanes hold it; factors
// of each stage, by row; what rows are divided by; logarithms of parts, by row; barriers. What other parts send takes
// the place of all in front of P.
constexpr int kQueryRows = min_of(kRows, ceil_div(kPackedRows, 16) * 16);
constexpr int kQueryChunkBytes = kQueryRows * 128;
constexpr int kQueryOffset = kStages * kTileBytes;
constexpr int kRawOffset = kQueryOffset + (kLatentChunks - 1) * kQueryChunkBytes + kRows * 128;
constexpr int kInboxBytes = kShare * 256 * 16;  // from one other part
constexpr int kScoresOffset =
    max_of(kRawOffset + (kNarrow ? STAGES * Copies::kRawBytes : 0), (kParts - 1) * kInboxBytes);
constexpr int kScoresBytes = kRows * kTile * 2;
constexpr int kFactorsOffset = kScoresOffset + kStages * kScoresBytes;
constexpr int kInverseOffset = kFactorsOffset + kStages * kRows * 4;
constexpr int kResults = kSpans ? kStages : 1;  // sets of row sums and their logarithms: with spans a stage has its own
constexpr int kLogarithmsOffset = kInverseOffset + kResults * kRows * 4;
constexpr int kBarrierOffset = kLogarithmsOffset + kResults * kParts * kRows * 4;
constexpr int kSegmentsOffset = kBarrierOffset + (kStages * kBarriers + 1) * 8;  // see segments.cuh
constexpr int kSegments = 4, kSegmentsBytes = kSpans ? 16 + kSegments * (16 + sizeof(Work)) : 0;
static_assert(kSegmentsOffset + kSegmentsBytes <= SHARED_BYTES, "kernel.json lays out shared memory as above");

struct Relay {
  u8* shared;
  u32 base;

  __device__ __forceinline__ explicit Relay(u8* from) : shared(from), base(shared_address(from)) {}

  __device__ __forceinline__ u32 tile(int stage) const { return base + stage * kTileBytes; }
  __device__ __forceinline__ u32 full(int stage, int third) const {
    return base + kBarrierOffset + (stage * kBarriers + third) * 8;
  }
  __device__ __forceinline__ u32 scored(int stage) const { return full(stage, kThirds); }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage, kThirds + 1); }
  // P of 16 tokens, this lane's.
  __device__ __forceinline__ uint4* scores(int stage, int step) const {
    return reinterpret_cast<uint4*>(shared + kScoresOffset + stage * kScoresBytes) + step * 128 + threadIdx.x % 128;
  }
  __device__ __forceinline__ float* factors(int stage) const {
    return reinterpret_cast<float*>(shared + kFactorsOffset) + stage * kRows;
  }
  // With spans, those of a segment whose last tile the stage holds.
  __device__ __forceinline__ float* inverse(int stage = 0) const {
    return reinterpret_cast<float*>(shared + kInverseOffset) + stage * kRows;
  }
  __device__ __forceinline__ float* logarithms(int part_or_stage) const {
    return reinterpret_cast<float*>(shared + kLogarithmsOffset) + part_or_stage * kRows;
  }
  // Counts the bytes that other parts send.
  __device__ __forceinline__ u32 inbox() const { return full(kStages, 0); }

  __device__ __forceinline__ void initialize() const {
    for (int stage = 0; stage < kStages; ++stage) {
      for (int third = 0; third < kThirds; ++third) mbarrier_init(full(stage, third), kGathers ? 128 : 1);
      mbarrier_init(scored(stage), 128);
      mbarrier_init(empty(stage), 8 * (kWarpSize + kPair - 1));
    }
    mbarrier_init(inbox(), 1);
    mbarrier_init_fence();
  }
};

// The place of a block in its cluster, whose ranks count blocks of rows first.
struct Place {
  u32 row = 0;
  u32 part = 0;
  u32 parts = 1;  // of the cluster, that have tokens; one of them if there are none

  __device__ __forceinline__ Place() {
    if constexpr (kCluster > 1) row = cluster_rank() % kPair, part = cluster_rank() / kPair;
  }

  __device__ __forceinline__ u32 rank(u32 of_row, u32 of_part) const { return of_part * kPair + of_row; }
};

// The row of this lane: its lower one, or the one 8 further.
__device__ __forceinline__ int row_of(int half) {
  return static_cast<int>(threadIdx.x % 128) / kWarpSize * 16 + half * 8 + threadIdx.x % kWarpSize / 4;
}
