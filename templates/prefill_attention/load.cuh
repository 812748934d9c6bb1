// The loading warp: takes work, tells the others of it, and asks the copy engine for Q, K and V in the order in which
// they are used. Keys and values in e4m3 take turns in the stages from which widen.cuh takes them, or values alone
// those of transpose.cuh.
#pragma once

#include "templates/common/l2_policy.cuh"
#include "templates/common/tma.cuh"
#include "templates/prefill_attention/pipeline.cuh"

// A tensor copy brings 128 bytes of each token, or whole rows of e4m3 that is widened.
constexpr int kBoxesOfRow = kWidens ? 1 : kChunks;
constexpr int kBoxRowBytes = kWidens ? kHeadDim : kRowBytes;
constexpr int kLandingBytes = kWidens ? kRawBytes : kTileBytes;

struct KvMaps {
  const TensorMap&
      k;  // [64 elements, token of a block, chunk, KV head, block]; a block is a page or everything; e4m3: whole rows
  const TensorMap& v;
  const i32* page_table;  // [batch, page_table_stride]
  i64 page_table_stride;
};

class Loader {
 public:
  __device__ __forceinline__ Loader(const Pipeline& pipeline, const TensorMap& queries, const KvMaps& maps)
      : pipeline_(pipeline), queries_(queries), maps_(maps), policy_(l2_policy(false)) {
    if (!leads()) return;
    tma_prefetch_descriptor(queries_);
    tma_prefetch_descriptor(maps_.k);
    tma_prefetch_descriptor(maps_.v);
  }

  // Everything that `work` reads.
  __device__ __forceinline__ void load(const Work& work) {
    const TileRange tiles = work.tiles();
    if (tiles.count() <= 0) return;
    load_keys(work, tiles.end - 1);
    load_queries(work);
    for (int tile = tiles.end - 2; tile >= tiles.first; --tile) {
      load_keys(work, tile);
      load_values(work, tile + 1);
    }
    load_values(work, tiles.first);
  }

 private:
  static __device__ __forceinline__ bool leads() { return threadIdx.x % kWarpSize == 0; }

  // A chunk's begin in the tensor maps: chunks are a dimension of theirs, or parts of undivided rows.
  static __device__ __forceinline__ int element_of(int chunk) { return kWholeChunks ? 0 : chunk * kChunkElements; }
  static __device__ __forceinline__ int chunk_of(int chunk) { return kWholeChunks ? chunk : 0; }

  __device__ __forceinline__ void load_queries(const Work& work) {
    const int stage = query_.index;
    mbarrier_wait(pipeline_.queries_empty(stage), query_.parity ^ 1);
    __syncwarp();  // as in WorkSlot::put
    query_.advance();
    if (!leads()) return;
    const u32 barrier = pipeline_.queries_landed(stage);
    mbarrier_arrive_expect(barrier, kQueryBytes);
    const int token = work.q_first + work.first_token;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const u32 to = pipeline_.queries(stage) + chunk * kQueryChunkBytes;
      if constexpr (kPacked) {
        tma_load_5d(to, queries_, barrier, policy_, element_of(chunk), 0, token, chunk_of(chunk), work.kv_head);
      } else {
        tma_load_5d(to, queries_, barrier, policy_, element_of(chunk), token, chunk_of(chunk), work.head, 0);
      }
    }
  }

  __device__ __forceinline__ void load_keys(const Work& work, int tile) {
    if constexpr (kWidens) return load_raw(work, tile, maps_.k);
    load_tile(work, tile, maps_.k, pipeline_.keys(keys_.index), pipeline_.keys_full(keys_.index),
              pipeline_.keys_empty(keys_.index), keys_.parity);
    keys_.advance();
  }

  __device__ __forceinline__ void load_values(const Work& work, int tile) {
    if constexpr (kNarrow) return load_raw(work, tile, maps_.v);
    load_tile(work, tile, maps_.v, pipeline_.values(values_.index), pipeline_.values_full(values_.index),
              pipeline_.values_empty(values_.index), values_.parity);
    values_.advance();
  }

  __device__ __forceinline__ void load_raw(const Work& work, int tile, const TensorMap& map) {
    load_tile(work, tile, map, pipeline_.raw(raw_.index), pipeline_.raw_full(raw_.index),
              pipeline_.raw_empty(raw_.index), raw_.parity);
    raw_.advance();
  }

  __device__ __forceinline__ void load_tile(const Work& work, int tile, const TensorMap& map, u32 to, u32 full,
                                            u32 empty, u32 parity) {
    mbarrier_wait(empty, parity ^ 1);
    if (leads()) mbarrier_arrive_expect(full, kLandingBytes);
    __syncwarp();
    if constexpr (kPage == 0) {
      if (!leads()) return;
#pragma unroll
      for (int chunk = 0; chunk < kBoxesOfRow; ++chunk) {
        tma_load_5d(to + chunk * kTileChunkBytes, map, full, policy_, element_of(chunk), work.kv_first + tile * kTile,
                    chunk_of(chunk), work.kv_head, 0);
      }
    } else {
      load_pages(work, tile, map, to, full);
    }
  }

  // A lane asks for a box. A page past the sequence's end counts as zeros: its entry may be anything.
  __device__ __forceinline__ void load_pages(const Work& work, int tile, const TensorMap& map, u32 to, u32 full) {
    constexpr int kBoxes = kTile / kBoxTokens * kBoxesOfRow;
    const i32* const pages = maps_.page_table + work.sequence * maps_.page_table_stride;
    for (int box = threadIdx.x % kWarpSize; box < kBoxes; box += kWarpSize) {
      const int chunk = box % kBoxesOfRow, part = box / kBoxesOfRow;
      const int token = tile * kTile + part * kBoxTokens;
      const bool there = token < work.kv_length;
      const int page = there ? pages[token / max_of(1, kPage)] : 0;
      tma_load_5d(to + chunk * kTileChunkBytes + part * kBoxTokens * kBoxRowBytes, map, full, policy_,
                  element_of(chunk), there ? token % max_of(1, kPage) : kPage, chunk_of(chunk), work.kv_head, page);
    }
  }

  Pipeline pipeline_;
  const TensorMap& queries_;
  KvMaps maps_;
  u64 policy_;
  RingPlace<kQueryStages> query_;
  RingPlace<kStages> keys_, values_;
  RingPlace<max_of(1, kRawStages)> raw_;
};
