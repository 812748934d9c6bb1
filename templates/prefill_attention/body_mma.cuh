// The body for sm_80 and up: all warps copy tiles of K and V to shared memory with cp.async, and each computes 16 rows
// with mma.sync. After FlashAttention-2 (Dao 2023).
//
// K and V of a tile are separate groups of copies. A slot is filled again as soon as all warps have read it: that of
// keys beside the softmax and the product with V, that of values beside the next product with K. Every half of a step
// issues one group (empty past the end), so "all but the newest 2 * kStages - 2" is always what is needed next.
// e4m3 is in registers while a bf16 tile's copy would be under way, and lands before the wait that follows.
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/prefill_attention/attend_mma.cuh"
#include "templates/prefill_attention/copy.cuh"
#include "templates/prefill_attention/schedule.cuh"
#include "templates/prefill_attention/store.cuh"

static_assert(SCHEDULE == SCHEDULE_GRID, "a block has one tile of rows");

// The tiles that a block's rows see, the last first, on their way through shared memory.
class TileRing {
 public:
  __device__ __forceinline__ TileRing(const Copier& copier, const KvSource& k, const KvSource& v, TileRange tiles)
      : copier_(copier), k_(k), v_(v), tiles_(tiles) {}

  // Number 0 is the last tile.
  __device__ __forceinline__ int tile(int number) const { return tiles_.end - 1 - number; }

  __device__ __forceinline__ void load_keys(int number) const {
    if (number < tiles_.count()) copier_.tile(k_, tile(number), keys(number));
    cp_async_commit();
  }
  __device__ __forceinline__ void load_values(int number) const {
    if (number < tiles_.count()) copier_.tile(v_, tile(number), values(number));
    cp_async_commit();
  }

  // e4m3 comes in two steps: fetched into registers, then landed.
  __device__ __forceinline__ void fetch_keys(int number, HeldTile& held) const {
    if (number < tiles_.count()) copier_.fetch(k_, tile(number), held);
  }
  __device__ __forceinline__ void fetch_values(int number, HeldTile& held) const {
    if (number < tiles_.count()) copier_.fetch(v_, tile(number), held);
  }
  __device__ __forceinline__ void land_keys(int number, const HeldTile& held) const {
    if (number < tiles_.count()) copier_.land(held, keys(number));
  }
  __device__ __forceinline__ void land_values(int number, const HeldTile& held) const {
    if (number < tiles_.count()) copier_.land(held, values(number));
  }

  // Their places in shared memory.
  static __device__ __forceinline__ u32 keys(int number) { return kKeysOffset + number % kStages * kTileBytes; }
  static __device__ __forceinline__ u32 values(int number) { return kValuesOffset + number % kStages * kTileBytes; }

  // The oldest group that was not waited for is there for all threads, and all have read what they were to.
  static __device__ __forceinline__ void wait() {
    cp_async_wait<kNarrow ? 0 : 2 * kStages - 2>();
    __syncthreads();
  }

 private:
  const Copier& copier_;
  KvSource k_, v_;
  TileRange tiles_;
};

__device__ __forceinline__ void attend_tile(MmaAttention& attention, int tile, u32 values) {
  attention.softmax(tile);
  attention.pack();
  attention.rescale();
  attention.accumulate(values);
}

#if defined(KV_DTYPE)
__device__ __forceinline__ void fill(const TileRing& ring) {
  cp_async_commit();  // the queries, unless they were converted
  HeldTile held;
  for (int stage = 0; stage < kStages; ++stage) {
    ring.fetch_keys(stage, held);
    ring.land_keys(stage, held);
    if (stage == kStages - 1) break;
    ring.fetch_values(stage, held);
    ring.land_values(stage, held);
  }
}

__device__ __forceinline__ void attend(MmaAttention& attention, const TileRing& ring, const Work& work, u32 shared) {
  const int count = work.tiles().count();
  HeldTile held;
  for (int number = 0; number < count; ++number) {
    const int tile = ring.tile(number);
    const bool seen = attention.sees(work, tile * kTile, (tile + 1) * kTile);
    TileRing::wait();
    ring.fetch_values(number + kStages - 1, held);
    if (seen) attention.score(shared, shared + TileRing::keys(number));
    ring.land_values(number + kStages - 1, held);
    TileRing::wait();
    ring.fetch_keys(number + kStages, held);
    if (seen) attend_tile(attention, tile, shared + TileRing::values(number));
    ring.land_keys(number + kStages, held);
  }
}
#else
__device__ __forceinline__ void fill(const TileRing& ring) {
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    if (stage > 0) ring.load_values(stage - 1);
    ring.load_keys(stage);
  }
}

__device__ __forceinline__ void attend(MmaAttention& attention, const TileRing& ring, const Work& work, u32 shared) {
  const int count = work.tiles().count();
  for (int number = 0; number < count; ++number) {
    const int tile = ring.tile(number);
    const bool seen = attention.sees(work, tile * kTile, (tile + 1) * kTile);
    TileRing::wait();
    ring.load_values(number + kStages - 1);
    if (seen) attention.score(shared, shared + TileRing::keys(number));
    TileRing::wait();
    ring.load_keys(number + kStages);
    if (!seen) continue;
    attend_tile(attention, tile, shared + TileRing::values(number));
  }
  cp_async_wait<0>();
}
#endif

extern "C" __global__ void __launch_bounds__(kThreads)
    prefill_attention(const QueryElement* q, const KvElement* k, const KvElement* v, const i32* q_offsets,
                      const i32* kv_offsets, const i32* kv_lengths, const i32* page_table, const float* sinks,
                      Element* o, float* lse, u32* counter, i64 page_table_stride, i64 o_token_stride,
                      i64 o_head_stride, i64 q_token_stride, i64 q_head_stride, i64 k_block_stride, i64 k_head_stride,
                      i64 k_token_stride, i64 v_block_stride, i64 v_head_stride, i64 v_token_stride, int batch,
                      int kv_heads, int blocks, int q_tokens, int capacity, int section, float scale_log2,
                      float* partial_o, float* partial_lse, int splits SCALE_PARAMETERS) {
  allow_dependent_launch();
  const Batch all{q_offsets, kv_offsets, kv_lengths, batch, kv_heads, blocks, q_tokens, capacity, section, splits};
  wait_for_predecessor();
  Work work;
  Tiles tiles(all);
  if (!tiles.find(blockIdx.x, work) || work.empty()) return;
  u8* const memory = dynamic_shared();
  const u32 shared = shared_address(memory);
  const Copier copier(memory, work, page_table + work.sequence * page_table_stride);
  const TileRing ring(copier, {k, {k_block_stride, k_head_stride, k_token_stride}},
                      {v, {v_block_stride, v_head_stride, v_token_stride}}, work.tiles());
  copier.queries({q, q_token_stride, q_head_stride});
  fill(ring);
  MmaAttention attention(static_cast<int>(threadIdx.x) / 128);
  const Scales scales{SCALE_ARGUMENTS};
  attention.begin(work, logit_factor(scales, scale_log2, work.kv_head));
  attend(attention, ring, work, shared);
  const Outputs outputs{o, o_token_stride, o_head_stride, lse, sinks, partial_o, partial_lse, scales.values};
  if (splits > 1) {
    store_partial(attention, work, outputs, all);
  } else {
    store(attention, work, outputs, kv_heads * kGroup);
  }
}
