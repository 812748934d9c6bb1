// The body for sm_90a: one warp asks the copy engine for weights (and, of the second product, for rows, which lie
// together), two more gather the first product's rows with cp.async, and warpgroups multiply.
//
// Barriers of a stage. `full` completes once its weights have landed, and its rows are written and fenced for the
// asynchronous proxy by the threads that gathered them; `empty` once every multiplying warp has read it. The stages go
// round without a stop from one tile to the next, in all roles alike: each finds the same tiles by itself.
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/wgmma_async.cuh"
#include "templates/moe_experts/store.cuh"
#include "templates/moe_experts/tiles.cuh"

constexpr int kGroups = WARPS / 4;                       // warpgroups
constexpr int kRowGroups = min_of(kGroups, kRows / 64);  // that share the rows; the others share the columns
constexpr int kColumnGroups = kGroups / kRowGroups;
constexpr int kStrips = kRows / 64 / kRowGroups;  // of 64 rows, of a warpgroup
constexpr int kBoxRows = kRows / 4;               // of `between` that one tensor copy brings
static_assert(WARPS % 4 == 0 && kRows % 64 == 0 && kRowGroups * kColumnGroups == kGroups, "whole warpgroups");

// A block's warps: those that multiply come first.
constexpr int kLoader = WARPS, kFirstGatherer = WARPS + 1, kGatherers = 2;
constexpr int kGatherThreads = kGatherers * kWarpSize;

template <typename Product>
constexpr int kThreadsOf = kWarpSize*(WARPS + 1 + (Product::kGathers ? kGatherers : 0));

// Columns of a warpgroup, and of its instructions: those of gate and of up side by side.
template <typename Product>
constexpr int kOwnColumns = Product::kColumns / kColumnGroups;
template <typename Product>
constexpr int kSumColumns = Product::kMatrices* kOwnColumns<Product>;

// The stage of a step, and the parity of its present round.
template <typename Product>
struct Place {
  int stage = 0;
  u32 parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage < Product::kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

// Shared addresses.
template <typename Product>
struct Ring {
  using Sizes = Stages<Product>;
  u32 base;

  __device__ __forceinline__ u32 rows(int stage) const { return base + stage * Sizes::kBytes; }
  __device__ __forceinline__ u32 weights(int stage) const { return rows(stage) + Sizes::kWeightsOffset; }
  __device__ __forceinline__ u32 full(int stage) const { return base + Sizes::kBarriersOffset + 8 * stage; }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage + Product::kStages); }

  // One thread calls it, before the block's first barrier.
  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < Product::kStages; ++stage) {
      mbarrier_init(full(stage), 1 + (Product::kGathers ? kGatherThreads : 0));
      mbarrier_init(empty(stage), WARPS);
    }
    mbarrier_init_fence();
  }
};

// The loading warp.
template <typename Product>
class Loader {
  using Sizes = Stages<Product>;

 public:
  __device__ __forceinline__ Loader(const Ring<Product>& ring, const TensorMap& weights,
                                    const TensorMap& rows)
      : ring_(ring), weights_(weights), rows_(rows) {}

  // Everything of a tile.
  __device__ __forceinline__ void load(const Tile& tile, int first_step = 0) {
    for (int step = first_step; step < Sizes::kSteps; ++step) {
      const int stage = place_.stage;
      load_weights(tile, step);
      if constexpr (!Product::kGathers) load_rows(tile, step, stage);
    }
  }

  // The same of a block's first tile: weights as far as the stages go, and the rows that belong to them once the kernel
  // in front has written them.
  __device__ __forceinline__ void load_first(const Tile& tile) {
    constexpr int kAhead = min_of(Product::kStages, Sizes::kSteps);
    for (int step = 0; step < kAhead; ++step) load_weights(tile, step);
    wait_for_predecessor();
    for (int step = 0; step < kAhead; ++step) load_rows(tile, step, step);
    load(tile, kAhead);
  }

 private:
  static __device__ __forceinline__ bool leads() { return threadIdx.x % kWarpSize == 0; }
  static __device__ __forceinline__ int boxes(const Tile& tile) {
    return (tile.rows + kBoxRows - 1) / kBoxRows;
  }

  // Announces the bytes of the whole stage.
  __device__ __forceinline__ void load_weights(const Tile& tile, int step) {
    const int stage = place_.stage;
    mbarrier_wait(ring_.empty(stage), place_.parity ^ 1);
    __syncwarp();  // a lane behind the others could miss the phase, which the first one's request lets go on
    place_.advance();
    if (!leads()) return;
    const u32 full = ring_.full(stage);
    const u32 row_bytes = Product::kGathers ? 0 : kChunks * boxes(tile) * kBoxRows * kChunkRowBytes;
    mbarrier_arrive_expect(full, kChunks * Sizes::kWeightChunkBytes + row_bytes);
    const u64 policy = l2_policy(STREAM && tile.is_only);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int group = 0; group < kColumnGroups; ++group) {
        tma_load_5d(ring_.weights(stage) + chunk * Sizes::kWeightChunkBytes +
                        group * kSumColumns<Product> * kChunkRowBytes,
                    weights_, full, policy, step * DEPTH + chunk * kChunkValues,
                    tile.column + group * kOwnColumns<Product>, 0, tile.expert, 0);
      }
    }
  }

  // What lies past the tile's rows belongs to others, and is not stored.
  __device__ __forceinline__ void load_rows(const Tile& tile, int step, int stage) const {
    if (!leads()) return;
    const u64 policy = l2_policy(false);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (int box = 0; box < boxes(tile); ++box) {
        tma_load_5d(ring_.rows(stage) + chunk * Sizes::kRowChunkBytes + box * kBoxRows * kChunkRowBytes,
                    rows_, ring_.full(stage), policy, step * DEPTH + chunk * kChunkValues,
                    tile.place + box * kBoxRows, 0, 0, 0);
      }
    }
  }

  Ring<Product> ring_;
  const TensorMap& weights_;
  const TensorMap& rows_;
  Place<Product> place_;
};

// The warps that gather rows of x. A thread copies the same 16 bytes of every eighth row. It arrives for a step when it
// has asked for some later ones: by then the copies have landed, and its fence waits for nothing.
class Gatherer {
  using Sizes = Stages<Up>;

 public:
  __device__ __forceinline__ Gatherer(const Ring<Up>& ring, const Operands& of) : of_(of) {
    const int thread = static_cast<int>(threadIdx.x) - kFirstGatherer * kWarpSize;
    unit_ = thread % 8;
    row_ = thread / 8;
    ring_.base = in_vector_register(ring.base);
    target_ = row_ * kChunkRowBytes + ((unit_ ^ row_ % 8) << 4);
  }

  __device__ __forceinline__ void gather(const Tile& tile) {
    find_rows(tile);
#pragma unroll 1
    for (int step = 0; step < Sizes::kSteps; ++step) {
      mbarrier_wait(ring_.empty(asked_.stage), asked_.parity ^ 1);
      copy(step * DEPTH, ring_.rows(asked_.stage) + target_);
      cp_async_commit();
      asked_.advance();
      if (step < kLag) continue;
      cp_async_wait<kLag>();
      arrive();
    }
    cp_async_wait<0>();
    for (int step = max_of(0, Sizes::kSteps - kLag); step < Sizes::kSteps; ++step) arrive();
  }

 private:
  static constexpr int kRowsAtOnce = kGatherThreads / 8, kCopies = kRows / kRowsAtOnce;
  // Steps. A stage is empty when the next step is full: with stages - 1 of them neither would come.
  static constexpr int kLag = max_of(Up::kStages / 2 - 1, min_of(1, Up::kStages - 2));
  static_assert(kRowsAtOnce == 8 && kCopies <= 32,
                "a row's place in the swizzle is the same for all of a thread's");

  __device__ __forceinline__ void find_rows(const Tile& tile) {
    present_ = 0;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = row_ + i * kRowsAtOnce;
      const int token = row < tile.rows ? token_of(of_.sorted[tile.place + row], of_.tokens) : -1;
      rows_[i] = of_.rows + static_cast<i64>(max_of(token, 0)) * of_.row_stride + unit_ * 8;
      present_ |= token < 0 ? 0u : 1u << i;
    }
  }

  // Rows that do not exist are left as they are in shared memory: what follows from them is not stored.
  __device__ __forceinline__ void copy(int k, u32 to) const {
    const u64 policy = l2_policy(false);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int column = k + chunk * kChunkValues;
      const bool is_inside = Sizes::kWholeSteps || column + unit_ * 8 < Up::kDepth;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        if (present_ >> i & 1)
          cp_async_16(to + chunk * Sizes::kRowChunkBytes + i * kRowsAtOnce * kChunkRowBytes,
                      rows_[i] + (is_inside ? column : 0), is_inside, policy);
      }
    }
  }

  __device__ __forceinline__ void arrive() {
    fence_async_proxy();
    mbarrier_arrive(ring_.full(arrived_.stage));
    arrived_.advance();
  }

  Operands of_;
  Ring<Up> ring_;
  Place<Up> asked_, arrived_;
  int unit_, row_;
  u32 target_, present_;
  const Element* rows_[kCopies];
};

// A multiplying warpgroup.
template <typename Product>
class Multiplier {
  using Sizes = Stages<Product>;

 public:
  __device__ __forceinline__ Multiplier(const Ring<Product>& ring, int group)
      : ring_(ring), first_row_(group % kRowGroups * kStrips * 64), column_group_(group / kRowGroups) {}

  __device__ __forceinline__ void multiply(const Tile& tile, Element* out) {
    int before = 0;  // the stage of the step before
#pragma unroll 1
    for (int step = 0; step < Sizes::kSteps; ++step) {
      const int stage = place_.stage;
      mbarrier_wait(ring_.full(stage), place_.parity);
      add(stage, step > 0);
      wgmma_wait<1>();
      if (step > 0) release(before);
      before = stage;
      place_.advance();
    }
    wgmma_wait<0>();
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) wgmma_hold<kSumColumns<Product> / 8>(sums_[strip]);
    release(before);
    const int row = first_row_ + static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip)
      store_strip<Product, kOwnColumns<Product> / 8>(sums_[strip], out, tile.place, tile.rows,
                                                     row + 64 * strip,
                                                     tile.column + column_group_ * kOwnColumns<Product>);
  }

 private:
  // One group of instructions.
  __device__ __forceinline__ void add(int stage, bool adds) {
    const u64 rows = WgmmaMatrix::rows(ring_.rows(stage) + first_row_ * kChunkRowBytes);
    const u64 weights =
        WgmmaMatrix::rows(ring_.weights(stage) + column_group_ * kSumColumns<Product> * kChunkRowBytes);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < DEPTH / 16; ++step) {
      const int chunk = step / 4, within = step % 4 * 32;
      const u64 b = WgmmaMatrix::moved(weights, chunk * Sizes::kWeightChunkBytes + within);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        const u64 a =
            WgmmaMatrix::moved(rows, chunk * Sizes::kRowChunkBytes + strip * 64 * kChunkRowBytes + within);
        wgmma_rows<Element, kSumColumns<Product>>(sums_[strip], a, b, adds || step > 0);
      }
    }
    wgmma_commit();
  }

  // For the whole warp, whose instructions have read the stage.
  __device__ __forceinline__ void release(int stage) const {
    if (threadIdx.x % kWarpSize == 0) mbarrier_arrive(ring_.empty(stage));
  }

  Ring<Product> ring_;
  Place<Product> place_;
  int first_row_, column_group_;
  float sums_[kStrips][kSumColumns<Product> / 8][4];
};

template <typename Product>
__device__ __forceinline__ Ring<Product> begin_ring(u8* memory, const TensorMap& weights) {
  const Ring<Product> ring{shared_address(memory)};
  if (threadIdx.x == 0) {
    ring.init();
    tma_prefetch_descriptor(weights);
  }
  return ring;
}

// Broadcast, so that the compiler knows that all lanes of a warp agree, and with them all that follows from it.
__device__ __forceinline__ int warp_of_block() {
  return __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / kWarpSize, 0);
}

template <typename Product, typename Work>
__device__ __forceinline__ void for_tiles(const TileList& tiles, Work work) {
  Tile tile;
  for (int index = blockIdx.x; tiles.find<Product>(index, tile); index += gridDim.x) work(tile);
}

// Offsets and slots may have been written by the kernel in front: they are read behind the wait.
extern "C" __global__ void __launch_bounds__(kThreadsOf<Up>, RESIDENTS)
    moe_experts_up(const __grid_constant__ TensorMap weights, const Element* x, i64 x_row, const int* sorted,
                   const int* offsets, Element* between, int tokens, int places) {
  u8* const memory = dynamic_shared();
  const Ring<Up> ring = begin_ring<Up>(memory, weights);
  wait_for_predecessor();
  allow_dependent_launch();  // not before the wait: moe_experts_down trusts in what lies before it
  const TileList tiles(memory + Stages<Up>::kTilesOffset);
  tiles.make<kThreadsOf<Up>>(offsets, places);
  const int warp = warp_of_block();
  if (warp < WARPS) {
    Multiplier<Up> multiplier(ring, warp / 4);
    for_tiles<Up>(tiles, [&](const Tile& tile) { multiplier.multiply(tile, between); });
  } else if (warp == kLoader) {
    Loader<Up> loader(ring, weights, weights);
    for_tiles<Up>(tiles, [&](const Tile& tile) { loader.load(tile); });
  } else {
    Gatherer gatherer(ring, {x, x_row, sorted, nullptr, 0, 0, nullptr, tokens});
    for_tiles<Up>(tiles, [&](const Tile& tile) { gatherer.gather(tile); });
  }
}

// Offsets and weights were there before moe_experts_up let this begin: they are read before the wait, `between` and
// whatever `products` was for behind it.
extern "C" __global__ void __launch_bounds__(kThreadsOf<Down>, RESIDENTS)
    moe_experts_down(const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap rows,
                     const int* offsets, Element* products, int places) {
  u8* const memory = dynamic_shared();
  const Ring<Down> ring = begin_ring<Down>(memory, weights);
  const TileList tiles(memory + Stages<Down>::kTilesOffset);
  tiles.make<kThreadsOf<Down>>(offsets, places);
  const int warp = warp_of_block();
  if (warp == kLoader) {
    Loader<Down> loader(ring, weights, rows);
    bool is_first = true;
    for_tiles<Down>(tiles, [&](const Tile& tile) {
      is_first ? loader.load_first(tile) : loader.load(tile);
      is_first = false;
    });
  }
  wait_for_predecessor();
  allow_dependent_launch();
  if (warp >= WARPS) return;
  Multiplier<Down> multiplier(ring, warp / 4);
  for_tiles<Down>(tiles, [&](const Tile& tile) { multiplier.multiply(tile, products); });
}
