// Body `tma` (sm_90+): producer warps ask the copy engine for whole tiles, mbarriers hand them to the warps
// that compute. One producer copies K and V in turn; two take one each.
//
// K and V have slots and barriers of their own, so a K slot is refilled while its V is still in use. The
// tensor map sees KV as [block][head][chunk][token][128 bytes], so one copy brings a tile (or a page, where
// pages are smaller).
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/tma.cuh"
#include "templates/decode_attention/merge.cuh"
#include "templates/decode_attention/tail.cuh"

static_assert(kProducers == 1 || kProducers == 2, "producer warps");

constexpr int kTileBytes = kTile * kRowBytes;
constexpr int kSlabs = kTile / kSlabTokens;  // copies a tile
static_assert(kSlabs <= kWarpSize, "one lane asks for each page of a tile");

// One of the two rings. Slots of K and V alternate in shared memory; barriers are full[kStages],
// empty[kStages].
struct Ring {
  u32 slots;
  u32 barriers;

  __device__ __forceinline__ Ring(u32 shared, int which)
      : slots(shared + which * kTileBytes), barriers(shared + kBarrierOffset + which * 2 * kStages * 8) {}

  __device__ __forceinline__ u32 slot(int index) const { return slots + 2 * index * kTileBytes; }
  __device__ __forceinline__ u32 full(int index) const { return barriers + index * 8; }
  __device__ __forceinline__ u32 empty(int index) const { return barriers + (kStages + index) * 8; }

  __device__ __forceinline__ void initialize() const {
    for (int index = 0; index < kStages; ++index) {
      mbarrier_init(full(index), 1);
      mbarrier_init(empty(index), kWarps);
    }
  }
};

// A place in a ring and the parity its barriers have there.
struct Turn {
  int slot = 0;
  u32 parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// Asks for one tile: lane s for slab s. Pages from token `end` on are not copied.
__device__ __forceinline__ void copy_tile(const Ring& ring, const TensorMap& map, const Turn& turn,
                                          const Work& work, int tile, i32 block, int end, u64 policy) {
  const int lane = threadIdx.x % kWarpSize;
  const int first = work.first_token + tile * work.step;
  const int slabs = min_of(kSlabs, ceil_div(end - first, kSlabTokens));
  mbarrier_wait(ring.empty(turn.slot), turn.parity ^ 1);
  if (lane == 0) mbarrier_arrive_expect(ring.full(turn.slot), slabs * kSlabBytes);
  __syncwarp();
  if (lane < slabs) {
    const int token = first + lane * kSlabTokens;
    const int row = kPage == 0 ? token : token % kPageTokens;
    tma_load_5d(ring.slot(turn.slot) + lane * kSlabBytes, map, ring.full(turn.slot), policy, 0, row, 0,
                work.kv_head, block);
  }
  __syncwarp();
}

// The block index of this lane's slab of a tile: the sequence, or the table's page, which is looked up before
// token `end` alone.
__device__ __forceinline__ i32 find_block(const i32* pages, const Work& work, int tile, int end) {
  if constexpr (kPage == 0) return work.batch;
  const int token =
      work.first_token + tile * work.step + static_cast<int>(threadIdx.x % kWarpSize) * kSlabTokens;
  const bool used = threadIdx.x % kWarpSize < kSlabs && token < end;
  return used ? __ldg(pages + token / kPageTokens) : 0;
}

__device__ __forceinline__ void produce(u32 shared, const TensorMap& k_map, const TensorMap& v_map,
                                        const i32* page_table, const i32* lengths, Work& work, int capacity,
                                        u64 policy) {
  const int producer = threadIdx.x / kWarpSize - kWarps;
  const bool leader = threadIdx.x % kWarpSize == 0;
  const Ring k_ring(shared, 0), v_ring(shared, 1);
  const bool takes_k = producer == 0, takes_v = producer == kProducers - 1;
  if (leader) {
    if (takes_k) {
      tma_prefetch_descriptor(k_map);
      k_ring.initialize();
    }
    if (takes_v) {
      tma_prefetch_descriptor(v_map);
      v_ring.initialize();
    }
    mbarrier_init_fence();
  }
  __syncwarp();
  named_barrier_arrive(1, kThreads);
  wait_for_predecessor();
  allow_dependent_launch();

  const int length = lengths[work.batch];
  const i32* pages = page_table + static_cast<i64>(work.batch) * (capacity / kPageTokens);
  if constexpr (kWindow > 0) work.measure(length);
  i32 block = find_block(pages, work, 0, kWindow > 0 ? length : capacity);
  Turn turn;
  const int ahead = tiles_ahead(work, capacity);
  for (int tile = 0; tile < ahead; ++tile) {
    if (takes_k) copy_tile(k_ring, k_map, turn, work, tile, block, capacity, policy);
    if (takes_v) copy_tile(v_ring, v_map, turn, work, tile, block, capacity, policy);
    turn.advance();
  }
  work.measure(needed_now(length));
  for (int tile = ahead; tile < work.tiles; ++tile) {
    const i32 next = find_block(pages, work, tile + 1, work.length);
    if (takes_k) copy_tile(k_ring, k_map, turn, work, tile, block, work.length, policy);
    if (takes_v) copy_tile(v_ring, v_map, turn, work, tile, block, work.length, policy);
    block = next;
    turn.advance();
  }
}

__device__ __forceinline__ void consume(u8* shared, const Work& work, const Outputs& outputs, int capacity,
                                        float scale_log2) {
  const u32 base = shared_address(shared);
  const Ring k_ring(base, 0), v_ring(base, 1);
  const int worker_token = threadIdx.x / kWorkerThreads * kWorkerTokens;
  const bool leader = threadIdx.x % kWarpSize == 0;
  const int own = token_offset(worker_token);
  const LaneOffsets lanes;
  const Query query(base, lanes);
  Attention attention;
  Turn turn;
  const int visible = first_visible(work.length);
  for (int tile = 0; tile < work.tiles; ++tile) {
    const int token = work.first_token + tile * work.step + worker_token;
    const int valid = work.length - token;
    mbarrier_wait(k_ring.full(turn.slot), turn.parity);
    if (valid > 0) attention.score(k_ring.slot(turn.slot) + own, query, lanes);
    __syncwarp();
    if (leader) mbarrier_arrive(k_ring.empty(turn.slot));
    if (valid > 0) attention.soften(find_sight(work, token), work.first_row, scale_log2);
    mbarrier_wait(v_ring.full(turn.slot), turn.parity);
    if (valid > 0) {
      const u32 v = v_ring.slot(turn.slot) + own;
      if (valid < kWorkerTokens) clear_rows(shared + (v - base), valid, kWorkerTokens);
      if (kHiddenHead && token < visible) {
        clear_rows(shared + (v - base), 0, min_of(kWorkerTokens, visible - token));
        fence_async_proxy();  // this slot will be copied into again
      }
      attention.accumulate(v, lanes);
    }
    __syncwarp();
    if (leader) mbarrier_arrive(v_ring.empty(turn.slot));
    turn.advance();
  }
  // What was asked for before the length was known must land before the ring is used again.
  for (int tile = work.tiles; tile < tiles_ahead(work, capacity); ++tile) {
    mbarrier_wait(k_ring.full(turn.slot), turn.parity);
    mbarrier_wait(v_ring.full(turn.slot), turn.parity);
    turn.advance();
  }
  finish(shared, attention, work, outputs);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const __grid_constant__ TensorMap k_map,
                     const __grid_constant__ TensorMap v_map, const float* k_scale, const float* v_scale,
                     const i32* page_table, const i32* lengths, const float* sinks, Element* o, float* lse,
                     float* partial_o, float* partial_lse, u32* counters, int capacity, float scale_log2,
                     int evict_first) {
  extern __shared__ __align__(1024) u8 shared[];
  Work work;
  const Inbox inbox(shared);
  if (inbox.exists()) inbox.open(work);
  if (threadIdx.x / kWarpSize >= kWarps) {
    produce(shared_address(shared), k_map, v_map, page_table, lengths, work, capacity,
            l2_policy(evict_first));
    if (inbox.exists()) inbox.wait_for_others();
  } else {
    wait_for_predecessor();
    allow_dependent_launch();
    const int length = lengths[work.batch];
    stage_query(shared, q, work);
    work.measure(needed_now(length));
    named_barrier_sync(1, kThreads);
    consume(shared, work, {o, lse, sinks, kv_scale(v_scale, work.kv_head), partial_o, partial_lse, counters},
            capacity, scale_log2 * kv_scale(k_scale, work.kv_head));
  }
}
