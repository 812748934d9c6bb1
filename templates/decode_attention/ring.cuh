// The ring of tiles that the tma bodies share: producer warps ask the copy engine for whole tiles, mbarriers
// hand them to the warps that compute. One producer copies K and V in turn; two take one each.
//
// K and V have slots and barriers of their own, so a K slot is refilled while its V is still in use. The
// tensor map sees KV as [block][head][chunk][token][128 bytes], so one copy brings a tile (or a page, where
// pages are smaller). Heads that do not fill their last chunk are seen as [block][head][1][token][head_dim] and brought
// a chunk at a time: what a box has past head_dim arrives as zeros.
#pragma once

#include "templates/common/barrier.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/decode_attention/math.cuh"
#include "templates/decode_attention/worker.cuh"

static_assert(kProducers == 1 || kProducers == 2, "producer warps");

constexpr int kTileBytes = kTile * kRowBytes;
constexpr int kBoxes = kTile / kBoxTokens;  // copies a tile
static_assert(kBoxes <= kWarpSize, "one lane asks for each page of a tile");

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

// A box's first row in its block of the tensor map.
__device__ __forceinline__ int box_row(int token) { return kPage == 0 ? token : token % kPageTokens; }

constexpr int kBoxCopies = kWholeChunks ? 1 : kChunks;  // that bring a box

// Asks for one tile: lane s for box s. Pages from token `end` on are not copied.
__device__ __forceinline__ void copy_tile(const Ring& ring, const TensorMap& map, const RingPlace<kStages>& state,
                                          const Work& work, int tile, i32 block, int end, u64 policy) {
  const int lane = threadIdx.x % kWarpSize;
  const int first = work.first_token + tile * work.step;
  const int boxes = min_of(kBoxes, ceil_div(end - first, kBoxTokens));
  mbarrier_wait(ring.empty(state.index), state.parity ^ 1);
  if (lane == 0) mbarrier_arrive_expect(ring.full(state.index), boxes * kBoxBytes);
  __syncwarp();
  if (lane < boxes) {
    unrolled<kBoxCopies>([&](int chunk) {
      tma_load_5d(ring.slot(state.index) + lane * kBoxBytes + chunk * kChunkBytes, map, ring.full(state.index), policy,
                  chunk * kChunkElements, box_row(first + lane * kBoxTokens), 0, work.kv_head, block);
    });
  }
  __syncwarp();
}

// The block index of this lane's box of a tile: the sequence, or the table's page, which is looked up before
// token `end` alone; `kSettled`: maybe before the wait.
template <bool kSettled = false>
__device__ __forceinline__ i32 find_block(const i32* pages, const Work& work, int tile, int end) {
  if constexpr (kPage == 0) return work.batch;
  const int token = work.first_token + tile * work.step + static_cast<int>(threadIdx.x % kWarpSize) * kBoxTokens;
  const bool used = threadIdx.x % kWarpSize < kBoxes && token < end;
  if (kSettled) return used ? read_settled(pages + token / kPageTokens) : 0;
  return used ? pages[token / kPageTokens] : 0;
}

// The blocks of as many tiles as the ring has stages, from tile `first` on. All look-ups are under way before the first
// is needed: one by one, each would cost the first copies a latency of memory.
struct FirstBlocks {
  i32 blocks[kStages];

  __device__ __forceinline__ FirstBlocks(const i32* pages, const Work& work, int first, int end) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) blocks[stage] = find_block<true>(pages, work, first + stage, end);
  }

  template <typename Take>
  __device__ __forceinline__ void each(const Take& take) const {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) take(stage, blocks[stage]);
  }
};

// The rings that a producer warp fills. It initializes their barriers and tells the warps that compute.
struct Producer {
  Ring k_ring;
  Ring v_ring;
  bool takes_k;
  bool takes_v;

  __device__ __forceinline__ Producer(u32 shared, const TensorMap& k_map, const TensorMap& v_map)
      : k_ring(shared, 0), v_ring(shared, 1) {
    const int producer = threadIdx.x / kWarpSize - kWarps;
    takes_k = producer == 0;
    takes_v = producer == kProducers - 1;
    if (threadIdx.x % kWarpSize == 0) {
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
  }
};

// One worker's share of `work.tiles` tiles, from `state` on.
__device__ __forceinline__ void attend_tiles(u8* shared, const Work& work, const Query& query, const LaneOffsets& lanes,
                                             Attention& attention, RingPlace<kStages>& state, float logit_factor) {
  const u32 base = shared_address(shared);
  const Ring k_ring(base, 0), v_ring(base, 1);
  const int worker_token = threadIdx.x / kWorkerThreads * kWorkerTokens;
  const bool leader = threadIdx.x % kWarpSize == 0;
  const int own = token_offset(worker_token);
  const int visible = first_visible(work.length);
  for (int tile = 0; tile < work.tiles; ++tile) {
    const int token = work.first_token + tile * work.step + worker_token;
    const int valid = work.length - token;
    mbarrier_wait(k_ring.full(state.index), state.parity);
    if (valid > 0) attention.score(k_ring.slot(state.index) + own, query, lanes);
    __syncwarp();
    if (leader) mbarrier_arrive(k_ring.empty(state.index));
    if (valid > 0) {
      const float scale_log2 = prepare_scores(attention, logit_factor);
      attention.softmax_tile(visible_range(work, token), work.first_row, scale_log2);
    }
    mbarrier_wait(v_ring.full(state.index), state.parity);
    if (valid > 0) {
      const u32 v = v_ring.slot(state.index) + own;
      const bool tail = valid < kWorkerTokens, head = kHiddenHead && token < visible;
      if (tail) clear_rows(shared + (v - base), valid, kWorkerTokens);
      if (head) clear_rows(shared + (v - base), 0, min_of(kWorkerTokens, visible - token));
      if (head || (kPersistent && tail)) fence_async_proxy();  // this slot will be copied into again
      attention.accumulate(v, lanes);
    }
    __syncwarp();
    if (leader) mbarrier_arrive(v_ring.empty(state.index));
    state.advance();
  }
}
