// The stages of moe_experts for sm_90a, and the warps that fill them: one asks the copy engine for weights (and for
// rows that lie together, as the second product's do), two more gather other rows with cp.async.
//
// Barriers of a stage. `full` completes once its weights and its rows have landed; whoever multiplies gathered rows
// fences them first for the asynchronous proxy. `empty` completes once every multiplying warp has read the stage. The
// stages go round without a stop from one tile to the next, in all roles alike: each finds the same tiles by itself.
#pragma once

#include "templates/common/bulk_copy.cuh"
#include "templates/common/cp_async.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/moe_experts/tiles.cuh"

constexpr int kGroups = WARPS / 4;  // warpgroups
constexpr int kRowGroups =
    SWAPPED ? 1 : min_of(kGroups, kRows / 64);  // that share the rows; the others share the columns
constexpr int kColumnGroups = kGroups / kRowGroups;
constexpr int kBoxRows = max_of(kRows / 4, 8);  // that one tensor copy brings
static_assert(WARPS % 4 == 0 && kRowGroups * kColumnGroups == kGroups, "whole warpgroups");

// A block's warps: those that multiply come first.
constexpr int kLoader = WARPS, kFirstGatherer = WARPS + 1, kGatherers = 2;
constexpr int kGatherThreads = kGatherers * kWarpSize;

template <typename Product>
constexpr bool kHasGatherers = Product::kGathers || (FUSED && Up::kGathers);
template <typename Product>
constexpr int kThreadsOf = kWarpSize*(WARPS + 1 + (kHasGatherers<Product> ? kGatherers : 0));

// Columns of a warpgroup, and with those of the other matrix; and blocks of packed weights.
template <typename Product>
constexpr int kOwnColumns = Product::kColumns / kColumnGroups;
template <typename Product>
constexpr int kSumColumns = Product::kMatrices* kOwnColumns<Product>;
template <typename Product>
constexpr int kOwnStrips = kSumColumns<Product> / kPackedRows;
static_assert(!kQuantizes || BETWEEN_GROUP == kOwnColumns<Up>, "a warpgroup has a whole group of what it stores");

// Shared addresses.
template <typename Product>
struct Ring {
  using Sizes = Stages<Product>;
  u32 base;

  __device__ __forceinline__ u32 rows(int stage) const { return base + stage * Sizes::kBytes; }
  __device__ __forceinline__ u32 weights(int stage) const { return rows(stage) + Sizes::kWeightsOffset; }
  __device__ __forceinline__ u32 scales(int stage) const {
    return base + Sizes::kScalesOffset + stage * Sizes::kScaleBytes;
  }
  // The same memory by its generic address.
  static __device__ __forceinline__ const u8* generic(u32 address) {
    return dynamic_shared() + (address - shared_address(dynamic_shared()));
  }
  __device__ __forceinline__ u32 full(int stage) const { return base + Sizes::kBarriersOffset + 8 * stage; }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage + Product::kStages); }

  // One thread calls it, before the block's first barrier.
  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < Product::kStages; ++stage) {
      mbarrier_init(full(stage), 1 + (kHasGatherers<Product> ? kGatherThreads : 0));
      mbarrier_init(empty(stage), WARPS);
    }
    mbarrier_init_fence();
  }
};

// The loading warp. `place` is the block's present stage; `scales` are those of `between`, `weight_scales` those of
// packed weights.
template <typename Product>
class Loader {
  using Sizes = Stages<Product>;

 public:
  __device__ __forceinline__ Loader(const Ring<Product>& ring, const TensorMap& weights, const TensorMap& rows,
                                    const float* scales, const void* weight_scales, RingPlace<Product::kStages>& place)
      : ring_(ring),
        weights_(weights),
        rows_(rows),
        scales_(scales),
        weight_scales_(static_cast<const u8*>(weight_scales)),
        place_(place) {}

  static __device__ __forceinline__ bool leads() { return threadIdx.x % kWarpSize == 0; }

  // Everything of a tile.
  __device__ __forceinline__ void load(const Tile& tile, int first_step = 0) {
    for (int step = first_step; step < Sizes::kSteps; ++step) {
      const int stage = place_.index;
      load_weights(tile, step);
      if constexpr (!Product::kGathers) load_rows(tile, step, stage);
    }
  }

  // The same of a tile whose rows may not be there yet: weights as far as the stages go, and the rows that belong to
  // them behind `wait`.
  template <typename Wait>
  __device__ __forceinline__ void load_behind(const Tile& tile, Wait wait) {
    constexpr int kAhead = min_of(Product::kStages, Sizes::kSteps);
    RingPlace<Product::kStages> first = place_;
    for (int step = 0; step < kAhead; ++step) load_weights(tile, step);
    wait();
    for (int step = 0; step < kAhead; ++step, first.advance()) load_rows(tile, step, first.index);
    load(tile, kAhead);
  }

 private:
  static __device__ __forceinline__ int boxes(const Tile& tile) { return (tile.rows + kBoxRows - 1) / kBoxRows; }

  // Announces the bytes of the whole stage. Rows of the matrices come in turn, eight of each.
  __device__ __forceinline__ void load_weights(const Tile& tile, int step) {
    const int stage = place_.index;
    mbarrier_wait(ring_.empty(stage), place_.parity ^ 1);
    __syncwarp();  // a lane behind the others could miss the phase, which the first one's request lets go on
    place_.advance();
    const u32 full = ring_.full(stage);
    const u64 policy = l2_policy(STREAM && tile.is_only);
    if constexpr (kPacked) {
      load_packed(tile, step, stage, policy);
      return;
    }
    if (!leads()) return;
    mbarrier_arrive_expect(full, kChunks * Sizes::kWeightChunkBytes + row_bytes(tile));
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int group = 0; group < kColumnGroups; ++group) {
        if constexpr (kNMajor) {
          load_blocks(
              ring_.weights(stage) + chunk * Sizes::kWeightChunkBytes + group * kSumColumns<Product> * kChunkRowBytes,
              tile.column + group * kOwnColumns<Product>, step * DEPTH + chunk * kChunkValues, tile.expert, full,
              policy);
          continue;
        }
        tma_load_5d(
            ring_.weights(stage) + chunk * Sizes::kWeightChunkBytes + group * kSumColumns<Product> * kChunkRowBytes,
            weights_, full, policy, step * DEPTH + chunk * kChunkValues, 0, 0,
            (tile.column + group * kOwnColumns<Product>) / 8, tile.expert);
      }
    }
  }

  // A chunk of a warpgroup's columns in blocks of 64 (kNMajor): those of gate and the same of up, or pairs.
  __device__ __forceinline__ void load_blocks(u32 to, int column, int k, int expert, u32 full, u64 policy) const {
    constexpr int kMatrices = kPairs<Product> ? 1 : Product::kMatrices;
    static_assert(kSumColumns<Product> % (kMatrices * kBlockColumns) == 0, "whole blocks");
#pragma unroll
    for (int block = 0; block < kSumColumns<Product> / (kMatrices * kBlockColumns); ++block)
      tma_load_5d(to + block * kMatrices * kBlockBytes, weights_, full, policy,
                  (kPairs<Product> ? 2 : 1) * column + block * kBlockColumns, k, 0, expert, 0);
  }

  // Bytes of a stage's rows, with their scales, if they come through the copy engine.
  static __device__ __forceinline__ u32 row_bytes(const Tile& tile) {
    return Product::kGathers ? 0
                             : kChunks * boxes(tile) * kBoxRows * kChunkRowBytes + (kNarrow ? Sizes::kScaleBytes : 0);
  }

  // Values come in one copy for each warpgroup, scales in one for each strip, as far as they are there: past the end
  // of K are no values but zeros, and past the last column nothing is stored.
  __device__ __forceinline__ void load_packed(const Tile& tile, int step, int stage, u64 policy) const {
    constexpr int kAllStrips = Product::kMatrices * Product::kWidth / kPackedRows;
    static_assert(Sizes::kPackedStrips <= kWarpSize, "a lane a strip");
    const int first = Product::kMatrices * tile.column / kPackedRows;
    const int strips = min_of(Sizes::kPackedStrips, kAllStrips - first);
    const u32 scale_bytes = min_of(kChunks, Sizes::kDepthBlocks - step * kChunks) * kPackedScaleBytes;
    const u32 full = ring_.full(stage);
    if (leads()) {
      mbarrier_arrive_expect(full, kChunks * Sizes::kWeightChunkBytes + strips * scale_bytes + row_bytes(tile));
#pragma unroll
      for (int group = 0; group < kColumnGroups; ++group)
        tma_load_5d(ring_.weights(stage) + group * kOwnStrips<Product> * kChunks * kPackedValueBytes, weights_, full,
                    policy, 0, step * kChunks, first + group * kOwnStrips<Product>, tile.expert, 0);
    }
    __syncwarp();  // bytes are expected before they arrive
    const int own = static_cast<int>(threadIdx.x) % kWarpSize;
    if (own >= strips) return;
    const i64 strip = static_cast<i64>(tile.expert) * kAllStrips + first + own;
    bulk_load(ring_.scales(stage) + own * kChunks * kPackedScaleBytes,
              weight_scales_ + (strip * Sizes::kDepthBlocks + step * kChunks) * kPackedScaleBytes, scale_bytes, full,
              policy);
  }

  // Rows past the tile's belong to others, and are not stored.
  __device__ __forceinline__ void load_rows(const Tile& tile, int step, int stage) const {
    if (!leads()) return;
    const u64 policy = l2_policy(false);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (int box = 0; box < boxes(tile); ++box) {
        tma_load_5d(ring_.rows(stage) + chunk * Sizes::kRowChunkBytes + box * kBoxRows * kChunkRowBytes, rows_,
                    ring_.full(stage), policy, step * DEPTH + chunk * kChunkValues, tile.place + box * kBoxRows, 0, 0,
                    0);
      }
    }
    if constexpr (kNarrow)
      bulk_load(ring_.scales(stage), scales_ + between_scale(tile.row, step * DEPTH), Sizes::kScaleBytes,
                ring_.full(stage), policy);
  }

  Ring<Product> ring_;
  const TensorMap& weights_;
  const TensorMap& rows_;
  const float* scales_;
  const u8* weight_scales_;
  RingPlace<Product::kStages>& place_;
};

// The warps that gather rows: a thread copies the same 16 bytes of every eighth row, and the scales of every 64th.
// Its copies arrive at `full` themselves, so that as many steps are under way as there are stages. These warps are as
// busy as those that multiply: a copy costs them an address, which is one instruction, and nothing else.
template <typename Product>
class Gatherer {
  using Sizes = Stages<Product>;

 public:
  __device__ __forceinline__ Gatherer(const Ring<Product>& ring, const Operands<Product>& of)
      : ring_(ring), of_(of), thread_(static_cast<int>(threadIdx.x) - kFirstGatherer * kWarpSize) {
    first_target_ = in_vector_register(ring.rows(0)) + row() * kChunkRowBytes + ((unit() ^ row() % kRowsAtOnce) << 4);
    target_ = first_target_;
  }

  __device__ __forceinline__ void gather(const Tile& tile) {
    const Sources<kCopies> of_rows(*this, tile, row(), kRowsAtOnce);
    const Sources<kScaleCopies> of_scales(*this, tile, thread_, kGatherThreads);
    const u8* rows = reinterpret_cast<const u8*>(of_.rows) + 16 * unit();
    const float* scales = of_.scales;
#pragma unroll 1
    for (int step = 0; step < Sizes::kSteps; ++step) {
      mbarrier_wait(ring_.empty(place_.index), place_.parity ^ 1);
      copy_rows(of_rows, rows, step);
      copy_scales(of_scales, scales);
      cp_async_arrive(ring_.full(place_.index));
      rows += kChunks * kChunkRowBytes;
      if (kNarrow) scales += kChunks;
      advance();
    }
  }

  // A tile of the second product, whose rows need no gathering.
  __device__ __forceinline__ void pass() {
#pragma unroll 1
    for (int step = 0; step < Stages<Down>::kSteps; ++step) {
      mbarrier_wait(ring_.empty(place_.index), place_.parity ^ 1);
      mbarrier_arrive(ring_.full(place_.index));
      advance();
    }
  }

 private:
  static constexpr int kRowsAtOnce = kGatherThreads / 8, kCopies = kRows / kRowsAtOnce,
                       kScaleCopies = kNarrow ? ceil_div(kRows, kGatherThreads) : 0;
  static_assert(kRowsAtOnce == 8 && kCopies <= 32, "a row's place in the swizzle is the same for all of a thread's");
  static_assert(!kNarrow || kChunkValues == kScaleGroup, "a scale for a row of a chunk");

  __device__ __forceinline__ int unit() const { return thread_ % 8; }
  __device__ __forceinline__ int row() const { return thread_ / 8; }

  // The rows of x that every so many rows of a tile are, and whether they are copied: not those past the tile's, and
  // padding only as zeros.
  template <int kCount>
  struct Sources {
    u32 of[kCount > 0 ? kCount : 1], copied = 0, real = 0;

    __device__ __forceinline__ Sources(const Gatherer& all, const Tile& tile, int row, int rows_at_once) {
#pragma unroll
      for (int i = 0; i < kCount; ++i, row += rows_at_once) {
        const int source = row < tile.rows ? all.of_.row_of(tile.place + row) : -1;
        of[i] = max_of(source, 0);
        real |= source < 0 ? 0u : 1u << i;
        copied |= (kZeroPadding ? row >= tile.rows : source < 0) ? 0u : 1u << i;
      }
    }
    __device__ __forceinline__ bool copies(int i) const { return copied >> i & 1; }
    __device__ __forceinline__ bool is_real(int i) const { return !kZeroPadding || real >> i & 1; }
  };

  // Rows that do not exist are left as they are in shared memory: what follows from them is not stored.
  __device__ __forceinline__ void copy_rows(const Sources<kCopies>& sources, const u8* rows, int step) const {
    const u64 policy = l2_policy(false);
    const u32 row_bytes = static_cast<u32>(of_.row_stride) * kOperandBytes;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const u8* const own = rows + static_cast<u64>(sources.of[i]) * row_bytes;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const bool is_inside =
            Sizes::kWholeSteps || step * DEPTH + chunk * kChunkValues + unit() * kUnitValues < Product::kDepth;
        if (sources.copies(i))
          cp_async_16(target_ + chunk * Sizes::kRowChunkBytes + i * kRowsAtOnce * kChunkRowBytes,
                      own + chunk * kChunkRowBytes, is_inside && sources.is_real(i), policy);
      }
    }
  }

  __device__ __forceinline__ void copy_scales(const Sources<kScaleCopies>& sources, const float* scales) const {
    const u32 target = ring_.scales(place_.index) + 4 * thread_;
#pragma unroll
    for (int i = 0; i < kScaleCopies; ++i) {
      const float* const own = scales + static_cast<u64>(sources.of[i]) * (Product::kDepth / kScaleGroup);
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk)
        if (sources.copies(i)) cp_async_4(target + 4 * (chunk * kRows + i * kGatherThreads), own + chunk);
    }
  }

  // The address is kept, not computed from the stage: see in_vector_register.
  __device__ __forceinline__ void advance() {
    place_.advance();
    target_ = place_.index == 0 ? first_target_ : target_ + Sizes::kBytes;
  }

  Ring<Product> ring_;
  Operands<Product> of_;
  int thread_;  // among those that gather
  RingPlace<Product::kStages> place_;
  u32 first_target_, target_;  // addresses in the first stage, and in the present one
};
