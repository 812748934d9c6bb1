// The warps beside the loading one, where keys and values are e4m3: they take tiles as they landed, in the order in
// which they were asked for, and write them as fp16 to where the warpgroups read them. Queries in bf16 are converted
// where they lie.
#pragma once

#include "templates/common/tma.cuh"
#include "templates/prefill_attention/convert_units.cuh"
#include "templates/prefill_attention/pipeline.cuh"

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
    for (int batch = turn_; batch < kTile * kRowUnits / kBatchUnits; batch += kWideningWarps)
      widen_batch(raw, shared_ + offset, batch);
    // The warp that had one batch more has the last turn next time.
    turn_ = turn_ == 0 ? kWideningWarps - 1 : turn_ - 1;
    publish(full);
    release(pipeline_.raw_empty(raw_.stage));
    raw_.advance();
  }

  __device__ __forceinline__ void queries() {
    if constexpr (!kConvertsQueries) return;
    mbarrier_wait(pipeline_.queries_landed(query_.stage), query_.parity);
    uint4* const units = reinterpret_cast<uint4*>(shared_ + query_.stage * kQueryBytes);
    for (int i = warp_ * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize; i < kQueryBytes / 16;
         i += kWideningWarps * kWarpSize) {
      units[i] = converted_queries(units[i]);
    }
    publish(pipeline_.queries_full(query_.stage));
    query_.advance();
  }

  // wgmma reads through the async proxy: what each lane stored has to be seen there before the warp arrives.
  static __device__ __forceinline__ void publish(u32 full) {
    fence_async_proxy();
    __syncwarp();
    release(full);
  }

  u8* shared_;
  Pipeline pipeline_;
  int warp_;
  int turn_;  // the first batch of the next tile
  RingPlace<kQueryStages> query_;
  RingPlace<kStages> keys_, values_;
  RingPlace<max_of(1, kRawStages)> raw_;
};
