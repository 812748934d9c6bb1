// Body `mma` (sm_80+): every warp copies its own sub-tiles with cp.async into its own ring and computes on
// them. Warps never wait for each other before the final merge.
//
// K and V are separate commit groups, and a K slot is refilled as soon as S is computed. Each step issues
// exactly one group (empty past the end), so "all but the newest 2 * kStages - 1" is always the group needed
// next.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/decode_attention/merge.cuh"
#include "templates/decode_attention/worker.cuh"

static_assert(kWorkerWarps == 1, "a warp brings its own sub-tiles");
constexpr int kWarpTokens = kWorkerTokens;
constexpr int kSubTileBytes = kWarpTokens * kRowBytes;
// Lanes that copy a row, each a unit of it; where its units do not divide the warp, one of each of its blocks.
constexpr int kRowLanes = kWarpSize % kUnitsPerRow == 0 ? kUnitsPerRow : 8;
constexpr int kRowParts = ceil_div(kUnitsPerRow, kRowLanes);
constexpr int kRowsPerCopy = kWarpSize / kRowLanes;  // rows one instruction of the warp covers: 1 to 8
constexpr int kCopies = kWarpTokens / kRowsPerCopy;
// Page ids of a sub-tile that a lane keeps. Pages of one token are shared out over the lanes.
constexpr int kWarpPages = kPage == 0   ? 1
                           : kPage == 1 ? ceil_div(kWarpTokens, kWarpSize)
                                        : max_of(1, kWarpTokens / kPageTokens);

// Copies one warp's sub-tiles. Sub-tile i begins at token first + i * work.step of the sequence.
class CpAsyncLoader {
 public:
  struct Pages {
    i32 id[kWarpPages];
  };

  __device__ __forceinline__ CpAsyncLoader(u32 ring, const KvElement* k, const KvStrides& k_strides, const KvElement* v,
                                           const KvStrides& v_strides, const i32* pages, const Work& work, int first,
                                           int end, bool evict_first)
      : ring_(ring),
        pages_(pages),
        k_strides_(k_strides),
        v_strides_(v_strides),
        first_(first),
        step_(work.step),
        visible_(kHiddenHead ? first_visible(work.length) : 0),
        end_(end),
        policy_(l2_policy(evict_first)) {
    const int lane = threadIdx.x % kWarpSize;
    row_ = lane / kRowLanes;
    const int unit = lane % kRowLanes;
    swizzled_ = (unit % 8 ^ row_) << 4;
    row_slot_ = unit / 8 * kChunkBytes + row_ * 128;
    const auto offset = [&](const KvStrides& strides) {
      return work.kv_head * strides.head + unit * kUnitElements +
             (kPage == 0 ? work.batch * strides.block + (first + row_) * strides.token : 0);
    };
    k_ = k + offset(k_strides);
    v_ = v + offset(v_strides);
  }

  static __device__ __forceinline__ u32 k_slot(u32 ring, int slot) { return ring + 2 * slot * kSubTileBytes; }
  static __device__ __forceinline__ u32 v_slot(u32 ring, int slot) { return k_slot(ring, slot) + kSubTileBytes; }

  // The token behind sub-tile i.
  __device__ __forceinline__ int end_of(int i) const { return first_ + i * step_ + kWarpTokens; }

  // From here on nothing past token `end` is looked up or read.
  __device__ __forceinline__ void stop_at(int end) { end_ = end; }

  // The pages of sub-tile i; entries of the table past the sequence's end are never used. `kSettled`: maybe before the
  // wait.
  template <bool kSettled = false>
  __device__ __forceinline__ Pages find_pages(int i) const {
    Pages pages;
#pragma unroll
    for (int p = 0; p < kWarpPages; ++p) {
      pages.id[p] = 0;
      if constexpr (kPage > 0) {
        const int within = kPage == 1 ? p * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize : p * kPage;
        const int token = first_ + i * step_ + within;
        const i32* const entry = pages_ + token / kPageTokens;
        if (token < end_) pages.id[p] = kSettled ? read_settled(entry) : *entry;
      }
    }
    return pages;
  }

  __device__ __forceinline__ void load_k(int i, int slot, const Pages& pages) const {
    load(k_, k_strides_, k_slot(ring_, slot), i, pages);
  }
  __device__ __forceinline__ void load_v(int i, int slot, const Pages& pages) const {
    load(v_, v_strides_, v_slot(ring_, slot), i, pages);
  }

 private:
  // Tokens past the end or before the window are written as zeros without being read, so that 0 * V is 0
  // there.
  __device__ __forceinline__ void load(const KvElement* base, const KvStrides& strides, u32 slot, int i,
                                       const Pages& pages) const {
    const int token = first_ + i * step_;
    if (token < end_) {
#pragma unroll
      for (int copy = 0; copy < kCopies; ++copy) {
        const int row = copy * kRowsPerCopy;
        const KvElement* source;
        if constexpr (kPage == 0) {
          source = base + (static_cast<i64>(i) * step_ + row) * strides.token;
        } else if constexpr (kPage == 1) {
          source = base + __shfl_sync(kWholeWarp, pages.id[row / kWarpSize], row % kWarpSize + row_) * strides.block;
        } else {
          const int in_page = (token + row) % kPageTokens + row_;
          source = base + pages.id[row / kPageTokens % kWarpPages] * strides.block + in_page * strides.token;
        }
        const int own = token + row + row_;
        if constexpr (kRowLanes == kUnitsPerRow) {
          cp_async_16(slot + row_slot_ + row * 128 + (swizzled_ ^ (row % 8 << 4)), source,
                      own < end_ && (!kHiddenHead || own >= visible_), policy_);
        } else {
          copy_row(slot + row_slot_ + row * 128 + (swizzled_ ^ (row % 8 << 4)), source,
                   own < end_ && (!kHiddenHead || own >= visible_));
        }
      }
    }
    cp_async_commit();
  }

  // The lane's unit of each of a row's blocks; the last may have fewer.
  __device__ __forceinline__ void copy_row(u32 to, const KvElement* source, bool seen) const {
#pragma unroll
    for (int part = 0; part < kRowParts; ++part) {
      if (part * kRowLanes + static_cast<int>(threadIdx.x) % kRowLanes < kUnitsPerRow)
        cp_async_16(to + part * kChunkBytes, source + part * kRowLanes * kUnitElements, seen, policy_);
    }
  }

  u32 ring_;
  const i32* pages_;
  KvStrides k_strides_;
  KvStrides v_strides_;
  int first_;
  int step_;
  int visible_;
  int end_;
  u64 policy_;
  int row_;       // the lane's row within one copy
  u32 row_slot_;  // where it lands, before the swizzle
  u32 swizzled_;
  const KvElement* k_;
  const KvElement* v_;
};

// Begins to load the ring's first tiles. Returns the length: what there was of it, or, with pages or `settled`, as it
// is now. If `settled`, waits for the launch in front only before the first sub-tile that holds newest tokens.
__device__ __forceinline__ int fill_ring(CpAsyncLoader& loader, int length, int capacity, bool settled) {
  CpAsyncLoader::Pages pages[kStages];
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) pages[stage] = loader.find_pages<true>(stage);
  if (kPage > 0 || settled) {
    length = clamp_length(needed_now(length), capacity);
    loader.stop_at(length);
  }
  bool waits = settled;
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    if (waits && loader.end_of(stage) > length - kQueries) {
      begin_after_predecessor();
      waits = false;
    }
    loader.load_k(stage, stage, pages[stage]);
    loader.load_v(stage, stage, pages[stage]);
  }
  if (settled) begin_after_predecessor();  // for the second time it costs nothing, and all paths have waited
  return length;
}

// This warp's share of all tiles. The ring holds the first kStages of them, or will.
__device__ __forceinline__ void attend_tiles(Attention& attention, const CpAsyncLoader& loader, u8* shared, u32 ring,
                                             const Query& query, const LaneOffsets& lanes, const Work& work, int first,
                                             int length, float logit_factor) {
  CpAsyncLoader::Pages next = loader.find_pages(kStages);
  int slot = 0;
  for (int i = 0; i < work.tiles; ++i) {
    const int token = first + i * work.step, valid = length - token;
    if (valid <= 0) break;  // the last tile may end before this warp's share of it
    cp_async_wait<2 * kStages - 1>();
    __syncwarp();
    attention.score(CpAsyncLoader::k_slot(ring, slot), query, lanes);
    __syncwarp();
    loader.load_k(i + kStages, slot, next);
    const float scale_log2 = prepare_scores(attention, logit_factor);
    attention.softmax_tile(visible_range(work, token), work.first_row, scale_log2);
    cp_async_wait<2 * kStages - 1>();
    __syncwarp();
    const u32 v_slot = CpAsyncLoader::v_slot(ring, slot);
    // Copies that began before the length was known brought no zeros past it.
    if (kPage == 0 && valid < kWarpTokens) clear_rows(shared + (v_slot - shared_address(shared)), valid, kWarpTokens);
    attention.accumulate(v_slot, lanes);
    __syncwarp();
    loader.load_v(i + kStages, slot, next);
    next = loader.find_pages(i + kStages + 1);
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
  cp_async_wait<0>();
}

extern "C" __global__ void __launch_bounds__(kThreads)
    decode_attention(const Element* q, const KvElement* k, const KvElement* v, const float* k_scale,
                     const float* v_scale, const i32* page_table, const i32* lengths, const float* sinks, Element* o,
                     float* lse, float* partial_o, float* partial_lse, u32* counters, i64 q_sequence_stride,
                     i64 q_token_stride, i64 q_head_stride, i64 o_sequence_stride, i64 o_token_stride,
                     i64 o_head_stride, i64 k_block_stride, i64 k_head_stride, i64 k_token_stride, i64 v_block_stride,
                     i64 v_head_stride, i64 v_token_stride, i64 page_table_stride, int capacity, float scale_log2,
                     int flags) {
  u8* const shared = dynamic_shared();
  Work work;
  const Inbox inbox(shared);
  if (inbox.exists()) inbox.open(work);
  read_early(q, o, lse, partial_o, q_sequence_stride, q_head_stride, o_sequence_stride, o_head_stride);
  const bool settled = settled_now(flags);
  const auto find_length = [&] {
    if (!settled) begin_after_predecessor();
    return read_settled(lengths + work.batch);
  };
  int length = 0;
  if constexpr (kWindow > 0) {
    length = clamp_length(find_length(), capacity);
    work.measure(length);
  }
  const int warp = threadIdx.x / kWarpSize;
  const u32 ring = shared_address(shared) + warp * (2 * kStages * kSubTileBytes);
  const int first = work.first_token + warp * kWarpTokens;
  // Until the length is known, contiguous KV is read and the page table is looked up as far as they reach.
  CpAsyncLoader loader(ring, k, {k_block_stride, k_head_stride, k_token_stride}, v,
                       {v_block_stride, v_head_stride, v_token_stride}, page_table + work.batch * page_table_stride,
                       work, first, kWindow > 0 ? length : capacity, flags & kEvictFirst);
  if constexpr (kWindow == 0) length = find_length();

  length = fill_ring(loader, length, capacity, settled);
  stage_query(shared, {q, {q_sequence_stride, q_token_stride, q_head_stride}}, work, threadIdx.x, kWarps * kWarpSize);
  length = clamp_length(needed_now(length), capacity);
  work.measure(length);
  loader.stop_at(length);
  if (inbox.exists()) inbox.wait_for_others();
  __syncthreads();

  const LaneOffsets lanes;
  const Query query(shared_address(shared), lanes);
  Attention attention;
  attend_tiles(attention, loader, shared, ring, query, lanes, work, first, length,
               Scaling::logit_factor(scale_log2, k_scale, work.kv_head));
  finish(shared, attention, work,
         {o,
          {o_sequence_stride, o_token_stride, o_head_stride},
          lse,
          sinks,
          Scaling::at(v_scale, work.kv_head),
          partial_o,
          partial_lse,
          counters});
}
