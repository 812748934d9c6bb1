// The warps beside the loading one, where keys and values are e4m3: they take tiles as they landed, in the order in
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
  // Warp `warp` of kWideningWarps.
  __device__ __forceinline__ Widener(u8* shared, int warp)
      : shared_(shared), pipeline_(shared), warp_(warp), turn_(warp) {}

  // Everything that `work` reads, in the order of Loader::load.
  __device__ __forceinline__ void widen(const Work& work) {
    const TileRange tiles = work.tiles();
    if (tiles.count() <= 0) return;
    keys();
    queries();
    for (int tile = tiles.end - 2; tile >= tiles.first; --tile) {
      keys();
      values();
    }
    values();
  }

 private:
  __device__ __forceinline__ void keys() {
    tile(kKeysOffset + keys_.stage * kTileBytes, pipeline_.keys_full(keys_.stage),
         pipeline_.keys_empty(keys_.stage), keys_.parity);
    keys_.advance();
  }

  __device__ __forceinline__ void values() {
    tile(kValuesOffset + values_.stage * kTileBytes, pipeline_.values_full(values_.stage),
         pipeline_.values_empty(values_.stage), values_.parity);
    values_.advance();
  }

  __device__ __forceinline__ void tile(int offset, u32 full, u32 empty, u32 parity) {
    mbarrier_wait(empty, parity ^ 1);
    mbarrier_wait(pipeline_.raw_full(raw_.stage), raw_.parity);
    const u8* const raw = shared_ + kRawOffset + raw_.stage * kRawBytes;
    for (int batch = turn_; batch < kBatches; batch += kWideningWarps)
      rows_.widen(raw, shared_, offset, batch);
    // The warp that had one batch more has the last turn next time.
    turn_ = turn_ == 0 ? kWideningWarps - 1 : turn_ - 1;
    publish(full);
    release_raw(pipeline_.raw_empty(raw_.stage));
    raw_.advance();
  }

  __device__ __forceinline__ void queries() {
    if constexpr (!kConvertsQueries) return;
    mbarrier_wait(pipeline_.queries_landed(query_.stage), query_.parity);
    uint4* const lane =
        reinterpret_cast<uint4*>(shared_ + query_.stage * kQueryBytes) + threadIdx.x % kWarpSize;
    for (int batch = warp_; batch < kQueryBytes / (16 * kQueryUnits * kWarpSize); batch += kWideningWarps) {
      uint4 units[kQueryUnits];
#pragma unroll
      for (int i = 0; i < kQueryUnits; ++i) units[i] = lane[(batch * kQueryUnits + i) * kWarpSize];
#pragma unroll
      for (int i = 0; i < kQueryUnits; ++i)
        lane[(batch * kQueryUnits + i) * kWarpSize] = converted_queries(units[i]);
    }
    publish(pipeline_.queries_full(query_.stage));
    query_.advance();
  }

  // wgmma reads through the async proxy: what a lane stored has to be seen there before it arrives.
  static __device__ __forceinline__ void publish(u32 full) {
    fence_async_proxy();
    release_by_lanes(full);
  }

  u8* shared_;
  Pipeline pipeline_;
  int warp_;
  int turn_;  // the first batch of the next tile
  RowWidener rows_;
  RingPlace<kQueryStages> query_;
  RingPlace<kStages> keys_, values_;
  RingPlace<max_of(1, kRawStages)> raw_;
};
