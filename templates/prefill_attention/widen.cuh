// The warps beside the loading one, if keys and values are e4m3: they take tiles as they landed, in the order in
// which they were asked for, and write them as fp16 to where the warpgroups read them. Queries in bf16 are converted
// where they lie.
#pragma once

#include "templates/common/tma.cuh"
#include "templates/prefill_attention/pipeline.cuh"
#include "templates/prefill_attention/widen_rows.cuh"

constexpr int kQueryUnits = 4;  // of queries that a lane has under way
static_assert(kQueryBytes % (16 * kQueryUnits * kWarpSize) == 0, "whole batches");

class Widener {
 public:
  __device__ __forceinline__ explicit Widener(u8* shared) : shared_(shared), pipeline_(shared), turn_(warp()) {}

  // Everything that `work` reads, in the order of Loader::load: keys and values by turns, but for the first two turns
  // and the last two.
  __device__ __forceinline__ void widen(const Work& work) {
    const TileRange tiles = work.tiles();
    const int turns = 2 * max_of(0, tiles.count());
    for (int turn = 0; turn < turns; ++turn) {
      const bool keys = turn == 0 || (turn % 2 == 1 && turn < turns - 1);
      tile(keys, keys ? RowRange{0, kTile} : work.seen_rows(tiles.end - (turn + 1) / 2));
      if (turn == 0) queries();
    }
  }

 private:
  // The calling warp's number among kWideningWarps, which follow the one that loads.
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpSize - 1; }

  // One place in the code for keys and values: what depends on which it is are a few sums a tile.
  __device__ __forceinline__ void tile(bool keys, RowRange kept) {
    const int stage = keys ? keys_.index : values_.index;
    const u32 parity = keys ? keys_.parity : values_.parity;
    mbarrier_wait(keys ? pipeline_.keys_empty(stage) : pipeline_.values_empty(stage), parity ^ 1);
    mbarrier_wait(pipeline_.raw_full(raw_.index), raw_.parity);
    const u8* const raw = shared_ + kRawOffset + raw_.index * kRawBytes;
    const int offset = (keys ? kKeysOffset : kValuesOffset) + stage * kTileBytes;
    if (kept.all()) {
      for (int batch = turn_; batch < kBatches; batch += kWideningWarps)
        rows_.widen<true>(raw, shared_, offset, batch, kept);
    } else {
      for (int batch = turn_; batch < kBatches; batch += kWideningWarps)
        rows_.widen<false>(raw, shared_, offset, batch, kept);
    }
    // The warp that had one batch more has the last turn next time.
    turn_ = turn_ == 0 ? kWideningWarps - 1 : turn_ - 1;
    publish(keys ? pipeline_.keys_full(stage) : pipeline_.values_full(stage));
    release_by_lanes(pipeline_.raw_empty(raw_.index));
    raw_.advance();
    if (keys) {
      keys_.advance();
    } else {
      values_.advance();
    }
  }

  __device__ __forceinline__ void queries() {
    if constexpr (!kConvertsQueries) return;
    mbarrier_wait(pipeline_.queries_landed(query_.index), query_.parity);
    uint4* const lane = reinterpret_cast<uint4*>(shared_ + query_.index * kQueryBytes) + threadIdx.x % kWarpSize;
    for (int batch = warp(); batch < kQueryBytes / (16 * kQueryUnits * kWarpSize); batch += kWideningWarps) {
      uint4 units[kQueryUnits];
#pragma unroll
      for (int i = 0; i < kQueryUnits; ++i) units[i] = lane[(batch * kQueryUnits + i) * kWarpSize];
#pragma unroll
      for (int i = 0; i < kQueryUnits; ++i)
        lane[(batch * kQueryUnits + i) * kWarpSize] = convert_unit<Element, Fp16>(units[i]);
    }
    publish(pipeline_.queries_full(query_.index));
    query_.advance();
  }

  // wgmma reads through the async proxy: what a lane stored has to be seen there before it arrives.
  static __device__ __forceinline__ void publish(u32 full) {
    fence_async_proxy();
    release_by_lanes(full);
  }

  u8* shared_;
  Pipeline pipeline_;
  int turn_;  // the first batch of the next tile
  RowWidener rows_;
  RingPlace<kQueryStages> query_;
  RingPlace<kStages> keys_, values_;
  RingPlace<max_of(1, kRawStages)> raw_;
};
