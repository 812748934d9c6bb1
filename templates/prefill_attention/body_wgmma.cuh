// The body for sm_90a: one warp loads, warpgroups compute, and a block goes on to its next rows while the last are
// being stored.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/warp_registers.cuh"
#include "templates/prefill_attention/load.cuh"
#include "templates/prefill_attention/schedule.cuh"
#include "templates/prefill_attention/store.cuh"
#include "templates/prefill_attention/transpose.cuh"
#include "templates/prefill_attention/widen.cuh"

// Registers of a loading and of a computing thread: together no more than the block was launched with. Widening needs
// more than loading alone.
constexpr int kLoadingRegisters = kNarrow ? 56 : kWarpgroups == 2 ? 24 : 32;
constexpr int kSpared = kNarrow ? (kWarpgroups == 3 ? 8 : 16) : 0;
constexpr int kComputingRegisters = (kWarpgroups == 3 ? 160 : 240) - kSpared;

// Named barriers, after __syncthreads' own: one for the turn of each warpgroup, one for what all of them do together.
constexpr int kFirstTurn = 1, kComputing = 4;

class Computer {
 public:
  __device__ __forceinline__ Computer(u8* shared, int warpgroup)
      : shared_(shared), pipeline_(shared), warpgroup_(warpgroup), attention_(warpgroup) {
    if (kPingPong && warpgroup == kWarpgroups - 1) named_barrier_arrive(kFirstTurn, 256);
  }

  __device__ __forceinline__ void compute(const Work& work, float scale_log2) {
    attention_.begin(work, scale_log2);
    const TileRange tiles = work.tiles();
    if (tiles.count() <= 0) return;
    int tile = tiles.end - 1;
    mbarrier_wait(pipeline_.queries_full(query_.index), query_.parity);
    score_last(work, tile);
    attention_.hold_scores();
    scored(tile == tiles.first);
    attention_.softmax(tile);
    attention_.pack();
    clear_values(work.seen_rows(tile).end, kTile);
    while (--tile >= tiles.first) {
      wait_turn();
      score();
      accumulate();
      pass_turn();
      wgmma_wait<kOverlap ? 1 : 0>();
      attention_.hold_scores();
      scored(tile == tiles.first);
      attention_.softmax(tile);
      if constexpr (kOverlap) wgmma_wait<0>();
      accumulated();
      attention_.rescale();
      attention_.pack();
    }
    if constexpr (kWindow > 0) clear_values(0, work.seen_rows(tiles.first).begin);
    accumulate();
    wgmma_wait<0>();
    accumulated();
    query_.advance();
  }

  __device__ __forceinline__ Attention& attention() { return attention_; }

 private:
  __device__ __forceinline__ void wait_turn() {
    if constexpr (kPingPong) named_barrier_sync(kFirstTurn + warpgroup_, 256);
  }
  __device__ __forceinline__ void pass_turn() {
    if constexpr (kPingPong) named_barrier_arrive(kFirstTurn + (warpgroup_ + 1) % kWarpgroups, 256);
  }

  __device__ __forceinline__ void score() {
    mbarrier_wait(pipeline_.keys_full(keys_.index), keys_.parity);
    attention_.score<kTile>(pipeline_.queries(query_.index), pipeline_.keys(keys_.index));
  }

  // The rows' last tile, and waits for it. With TRIM a warpgroup whose rows see no more than half of it computes no
  // more: on the diagonal the upper of two, which then is ahead of the other, so that one's softmax falls beside the
  // other's products. (Addresses anew: ptxas serializes wgmma if descriptors of both ways stay in registers.)
  __device__ __forceinline__ void score_last(const Work& work, int tile) {
    if constexpr (kFewTokens < kTile) {
      mbarrier_wait(pipeline_.keys_full(keys_.index), keys_.parity);
      const u32 queries = pipeline_.queries(query_.index), keys = pipeline_.keys(keys_.index);
      if (attention_.sees_few(work, tile)) {
        attention_.score<kFewTokens>(wgmma_forget(queries), wgmma_forget(keys));
        wgmma_wait<0>();
      } else {
        attention_.score<kTile>(wgmma_forget(queries), wgmma_forget(keys));
        wgmma_wait<0>();
      }
    } else {
      score();
      wgmma_wait<0>();
    }
  }

  __device__ __forceinline__ void scored(bool last) {
    release(pipeline_.keys_empty(keys_.index));
    if (last) release(pipeline_.queries_empty(query_.index));
    keys_.advance();
  }

  __device__ __forceinline__ void accumulate() {
    mbarrier_wait(pipeline_.values_full(values_.index), values_.parity);
    attention_.accumulate(pipeline_.values(values_.index));
  }

  __device__ __forceinline__ void accumulated() {
    attention_.hold_output();
    release(pipeline_.values_empty(values_.index));
    values_.advance();
  }

  // Zeros rows [first, end) of the next tile of V, which no query sees: 0 times whatever lies there must be 0. All
  // warpgroups share the rows. (Of e4m3, the warps that widen or transpose a tile write the zeros.)
  //
  // Order. Before: the copy that wrote the rows has completed `full`, for which every thread waits. After: each thread
  // fences its zeros for the asynchronous proxy, through which this tile's wgmma reads them and the next copy
  // overwrites them; then the barrier orders all threads' zeros before any warp's products, and so before the arrivals
  // that release the stage, though one lane arrives for its warp.
  __device__ __forceinline__ void clear_values(int first, int end) {
    if (kNarrow || first >= end) return;
    mbarrier_wait(pipeline_.values_full(values_.index), values_.parity);
    u8* const tile = shared_ + kValuesOffset + values_.index * kTileBytes;
    constexpr int kThreadsThatCompute = 128 * kWarpgroups;
    for (int i = threadIdx.x - 128; i < (end - first) * kChunks * 8; i += kThreadsThatCompute) {
      const int row = first + i / (kChunks * 8), unit = i % (kChunks * 8);
      *reinterpret_cast<uint4*>(tile + unit / 8 * kTileChunkBytes + row * 128 + unit % 8 * 16) = make_uint4(0, 0, 0, 0);
    }
    fence_async_proxy();
    named_barrier_sync(kComputing, kThreadsThatCompute);
  }

  u8* shared_;
  Pipeline pipeline_;
  int warpgroup_;
  Attention attention_;
  RingPlace<kQueryStages> query_;
  RingPlace<kStages> keys_, values_;
};

// The loading warp's part: one work after the other, and then none.
__device__ __forceinline__ void load_all(WorkSlot& slot, Loader& loader, const Batch& all, u32* counters) {
  Schedule schedule(counters);
  Tiles tiles(all);
  wait_for_predecessor();
  Work work;
  for (int index = schedule.first(); tiles.find(index, work);) {
    const int taken = schedule.take();
    if (!work.empty()) {
      slot.put(work);
      loader.load(work);
    }
    if constexpr (SCHEDULE == SCHEDULE_GRID) break;
    index = schedule.next(index, taken);
  }
  Work none{};
  none.sequence = -1;
  slot.put(none);
  schedule.finish();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    prefill_attention(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                      const __grid_constant__ TensorMap v_map, const i32* q_offsets, const i32* kv_offsets,
                      const i32* kv_lengths, const i32* page_table, const float* sinks, Element* o, float* lse,
                      u32* counters, i64 page_table_stride, i64 o_token_stride, i64 o_head_stride, int batch,
                      int kv_heads, int blocks, int q_tokens, int capacity, int section, float scale_log2,
                      float* partial_o, float* partial_lse, int splits SCALE_PARAMETERS) {
  u8* const shared = dynamic_shared();
  const Pipeline pipeline(shared);
  if (threadIdx.x == 0) pipeline.init();
  __syncthreads();
  allow_dependent_launch();
  WorkSlot slot(shared, pipeline);
  // Broadcast, so that the compiler knows that all lanes of a warp agree, and with them all that follows from it.
  const int warpgroup = __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / 128, 0) - 1;
  const Batch all{q_offsets, kv_offsets, kv_lengths, batch, kv_heads, blocks, q_tokens, capacity, section, splits};
  if (warpgroup < 0) {
    give_registers<kLoadingRegisters>();
    if (threadIdx.x < kWarpSize) {
      Loader loader(pipeline, q_map, {k_map, v_map, page_table, page_table_stride});
      load_all(slot, loader, all, counters);
    } else if constexpr (kMultipliesBytes) {
      Transposer transposer(pipeline);
      for (Work work = slot.take(); work.sequence >= 0; work = slot.take()) transposer.transpose(work);
    } else if constexpr (kNarrow) {
      Widener widener(shared);
      for (Work work = slot.take(); work.sequence >= 0; work = slot.take()) widener.widen(work);
    }
  } else {
    take_registers<kComputingRegisters>();
    Computer computer(shared, warpgroup);
    const Scales scales{SCALE_ARGUMENTS};
    const Outputs outputs{o, o_token_stride, o_head_stride, lse, sinks, partial_o, partial_lse, scales.values};
    for (Work work = slot.take(); work.sequence >= 0; work = slot.take()) {
      computer.compute(work, logit_factor(scales, scale_log2, work.kv_head));
      if (splits > 1) {
        store_partial(computer.attention(), work, outputs, all);
      } else {
        store(computer.attention(), work, outputs, kv_heads * kGroup);
      }
    }
  }
}
