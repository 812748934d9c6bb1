// The body for few rows by packed weights (sm_90a). Warps of a block share K: each keeps its part of a tile's rows in
// registers, and multiplies it by every strip of 16 rows of the weights that comes along, whole, through the bulk copy
// engine. Another warp adds up what they made of a strip, in their order, and stores it.
//
// A tile is a strip. Each block has as many as others, which follow each other: it brings rows once for all strips of
// an expert. Scales multiply sums over 32 of K, not values, so unpacked values are 2^126 too small, as their bits say,
// and rows are made 2^64 too large: sums are no subnormal numbers.
//
// Barriers of a stage are as in ring.cuh; of a slot for sums, `ready` completes once all warps have stored theirs, and
// `taken` once they are added up.
#pragma once

#include "templates/common/bulk_copy.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/ring_place.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_experts/tiles.cuh"

constexpr int kLoader = WARPS, kAdder = WARPS + 1, kThreads = kWarpSize * (WARPS + 2);
constexpr int kRowBlocks = kRows / 8;   // of an instruction's columns
constexpr u32 kEnlarged = 0x5f805f80u;  // 2^64, twice
constexpr float kReduced = 0x1p-64f;

// Blocks of K that a warp has, and how many warps have any.
template <typename Product>
constexpr int kOwnBlocks = ceil_div(Stages<Product>::kDepthBlocks, WARPS);
template <typename Product>
constexpr int kSharers = ceil_div(Stages<Product>::kDepthBlocks, kOwnBlocks<Product>);

// Shared addresses.
template <typename Product>
struct StripRing {
  using Sizes = Stages<Product>;
  u8* memory;

  __device__ __forceinline__ u8* values(int stage) const { return memory + stage * Sizes::kBytes; }
  __device__ __forceinline__ u8* scales(int stage) const {
    return memory + Sizes::kScalesOffset + stage * Sizes::kScaleBytes;
  }
  // A lane's sums of a warp.
  __device__ __forceinline__ VectorOf<16>* sums(int slot, int warp) const {
    return reinterpret_cast<VectorOf<16>*>(memory + Sizes::kLargestOffset) +
           ((slot * WARPS + warp) * kRowBlocks) * kWarpSize + threadIdx.x % kWarpSize;
  }
  __device__ __forceinline__ u32 full(int stage) const {
    return shared_address(memory) + Sizes::kBarriersOffset + 8 * stage;
  }
  __device__ __forceinline__ u32 empty(int stage) const { return full(Product::kStages + stage); }
  __device__ __forceinline__ u32 ready(int slot) const {
    return shared_address(memory) + Sizes::kTicketsOffset + 8 * slot;
  }
  __device__ __forceinline__ u32 taken(int slot) const { return ready(kSumSlots + slot); }

  // One thread calls it, before the block's first barrier.
  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < Product::kStages; ++stage) {
      mbarrier_init(full(stage), 1);
      mbarrier_init(empty(stage), kSharers<Product>);
    }
    for (int slot = 0; slot < kSumSlots; ++slot) {
      mbarrier_init(ready(slot), kSharers<Product>);
      mbarrier_init(taken(slot), 1);
    }
    mbarrier_init_fence();
  }
};

// For a whole warp, which has done with a stage or slot.
__device__ __forceinline__ void arrive_together(u32 barrier) {
  __syncwarp();
  if (threadIdx.x % kWarpSize == 0) mbarrier_arrive(barrier);
}

// Calls `work` with the first of this block's tiles of the same rows, and how many follow each other from it on.
template <typename Product, typename Work>
__device__ __forceinline__ void for_runs(const TileList& tiles, Work work) {
  const i64 all = tiles.count<Product>();
  const int end = static_cast<int>(all * (blockIdx.x + 1) / gridDim.x);
  Tile tile;
  for (int index = static_cast<int>(all * blockIdx.x / gridDim.x); index < end;) {
    tiles.find<Product>(index, tile);
    const int run = min_of(end - index, (Product::kWidth - tile.column) / Product::kColumns);
    work(tile, run);
    index += run;
  }
}

template <typename Product>
__device__ __forceinline__ void load_strips(const StripRing<Product>& ring, const TileList& tiles,
                                            const Operands<Product>& of) {
  using Sizes = Stages<Product>;
  RingPlace<Product::kStages> place;
  for_runs<Product>(tiles, [&](const Tile& tile, int run) {
    const i64 first = static_cast<i64>(tile.expert) * Sizes::kColumnTiles + tile.column / Product::kColumns;
    const u8* values = reinterpret_cast<const u8*>(of.weights) + first * Sizes::kBytes;
    const u8* scales = static_cast<const u8*>(of.weight_scales) + first * Sizes::kScaleBytes;
    const u64 policy = l2_policy(STREAM && tile.is_only);
    for (int i = 0; i < run; ++i, place.advance()) {
      mbarrier_wait(ring.empty(place.index), place.parity ^ 1);
      __syncwarp();  // a lane behind the others could miss the phase, which the first one's request lets go on
      if (threadIdx.x % kWarpSize != 0) continue;
      const u32 full = ring.full(place.index);
      mbarrier_arrive_expect(full, Sizes::kBytes + Sizes::kScaleBytes);
      bulk_load(shared_address(ring.values(place.index)), values + static_cast<i64>(i) * Sizes::kBytes,
                Sizes::kBytes, full, policy);
      bulk_load(shared_address(ring.scales(place.index)), scales + static_cast<i64>(i) * Sizes::kScaleBytes,
                Sizes::kScaleBytes, full, policy);
    }
  });
}

// A warp that multiplies its blocks of K.
template <typename Product>
class Sharer {
  static constexpr int kBlocks = Stages<Product>::kDepthBlocks, kOwn = kOwnBlocks<Product>;

 public:
  __device__ __forceinline__ Sharer(const StripRing<Product>& ring, int warp)
      : ring_(ring), warp_(warp), lane_(threadIdx.x % kWarpSize), first_(warp * kOwn) {}

  __device__ __forceinline__ void multiply(const Operands<Product>& of, const Tile& tile, int run) {
    take_rows(of, tile);
    for (int i = 0; i < run; ++i) {
      const int stage = place_.index;
      mbarrier_wait(ring_.full(stage), place_.parity);
      const u8* const values = ring_.values(stage) + first_ * kPackedValueBytes + 16 * lane_;
      const u8* const scales = ring_.scales(stage) + first_ * kPackedScaleBytes + lane_ / 4 * 4;
      float totals[kRowBlocks][4] = {};
#pragma unroll
      for (int block = 0; block < kOwn; ++block) {
        if (kBlocks % kOwn == 0 || first_ + block < kBlocks)
          add(load_vector<16>(values + block * kPackedValueBytes),
              *reinterpret_cast<const u32*>(scales + block * kPackedScaleBytes), rows_[block], totals);
      }
      arrive_together(ring_.empty(stage));
      place_.advance();
      mbarrier_wait(ring_.taken(slot_.index), slot_.parity ^ 1);
#pragma unroll
      for (int part = 0; part < kRowBlocks; ++part) {
        VectorOf<16> own;
#pragma unroll
        for (int v = 0; v < 4; ++v) own.words[v] = __float_as_uint(totals[part][v]);
        ring_.sums(slot_.index, warp_)[part * kWarpSize] = own;
      }
      arrive_together(ring_.ready(slot_.index));
      slot_.advance();
    }
  }

 private:
  static constexpr int kSteps = kPackedDepth / 16;
  using Rows = u32[kRowBlocks][kSteps][2];  // of a block of K, as B of mma.sync m16n8k16

  // Rows that do not exist, and what lies past the end of K, are zeros.
  __device__ __forceinline__ void take_rows(const Operands<Product>& of, const Tile& tile) {
#pragma unroll
    for (int part = 0; part < kRowBlocks; ++part) {
      const int row = 8 * part + lane_ / 4, place = tile.place + row;
      i64 source = row < tile.rows ? place : -1;
      if (Product::kGathers && source >= 0) source = token_of(of.sorted[place], of.tokens);
      const Operand* const from = of.rows + max_of(source, i64{0}) * of.row_stride;
#pragma unroll
      for (int pair = 0; pair < kOwn * kSteps * 2; ++pair) {
        const int k = first_ * kPackedDepth + 8 * pair + 2 * (lane_ % 4);
        const bool is_there = source >= 0 && k < Product::kDepth;
        rows_[pair / (2 * kSteps)][part][pair / 2 % kSteps][pair % 2] =
            is_there ? multiply_bf16x2(*reinterpret_cast<const u32*>(from + k), kEnlarged) : 0;
      }
    }
  }

  static __device__ __forceinline__ void add(const VectorOf<16>& values, u32 scales, const Rows& rows,
                                             float (&totals)[kRowBlocks][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // of a block, which have a scale each
      u32 fragments[2][4];
#pragma unroll
      for (int step = 0; step < 2; ++step) unpack_codes(values.words[2 * half + step], fragments[step]);
      const float powers[2] = {scale_power(scales, 2 * half), scale_power(scales, 2 * half + 1)};
#pragma unroll
      for (int part = 0; part < kRowBlocks; ++part) {
        float sums[4] = {};
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const u32(&own)[2] = rows[part][2 * half + step];
          mma_16816<Element>(sums, fragments[step], own[0], own[1]);
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) totals[part][v] = __fmaf_rn(sums[v], powers[v / 2], totals[part][v]);
      }
    }
  }

  StripRing<Product> ring_;
  int warp_, lane_, first_;
  RingPlace<Product::kStages> place_;
  RingPlace<kSumSlots> slot_;
  Rows rows_[kOwn];
};

// Adds up and stores. A lane's sums are of two of a strip's 16 columns, eight apart, and two rows of each eight.
template <typename Product>
__device__ __forceinline__ void add_up(const StripRing<Product>& ring, const TileList& tiles,
                                       const Output<Product>& to) {
  const int lane = threadIdx.x % kWarpSize;
  RingPlace<kSumSlots> place;
  for_runs<Product>(tiles, [&](const Tile& tile, int run) {
    for (int i = 0; i < run; ++i, place.advance()) {
      const int column = tile.column + i * Product::kColumns;
      const auto bias = to.bias(tile.expert, column + lane / 4);
      const float low = bias.of[0],
                  high = Product::kMatrices == 2
                             ? bias.of[Product::kMatrices - 1]
                             : to.bias(tile.expert, column + Product::kColumns / 2 + lane / 4).of[0];
      mbarrier_wait(ring.ready(place.index), place.parity);
      float sums[kRowBlocks][4] = {};
#pragma unroll 4
      for (int warp = 0; warp < kSharers<Product>; ++warp) {
#pragma unroll
        for (int part = 0; part < kRowBlocks; ++part) {
          const VectorOf<16> own = ring.sums(place.index, warp)[part * kWarpSize];
#pragma unroll
          for (int v = 0; v < 4; ++v) sums[part][v] += __uint_as_float(own.words[v]);
        }
      }
      arrive_together(ring.taken(place.index));
#pragma unroll
      for (int part = 0; part < kRowBlocks; ++part) {
        float(&own)[4] = sums[part];
#pragma unroll
        for (int v = 0; v < 4; ++v) own[v] = __fmaf_rn(own[v], kReduced, v < 2 ? low : high);
        const int row = 8 * part + lane / 4;
        typename Product::Out* const stored =
            to.values + static_cast<i64>(tile.place + row) * Product::kWidth + column + 2 * (lane % 4);
        const auto put = [&](u32 word, int first) {
          const u32 pair = transposed_8x8(word);
          if (row < tile.rows) *reinterpret_cast<u32*>(stored + first) = pair;
        };
        if constexpr (Product::kMatrices == 2) {
          put(Element::pack(gated(own[0], own[2]), gated(own[1], own[3])), 0);
        } else {
          put(Element::pack(own[0], own[1]), 0);
          put(Element::pack(own[2], own[3]), 8);
        }
      }
    }
  });
}

template <typename Product>
__device__ __forceinline__ void multiply_tiles(const Operands<Product>& of, const int* offsets, int places,
                                               int row_tiles) {
  u8* const memory = dynamic_shared();
  const StripRing<Product> ring{memory};
  if (threadIdx.x == 0) ring.init();
  // Offsets and weights were there before moe_experts_up let its successor begin, which it does behind its wait.
  const auto follow = [] {
    wait_for_predecessor();
    allow_dependent_launch();
  };
  if constexpr (Product::kGathers) follow();
  const TileList tiles(memory + Stages<Product>::kTilesOffset);
  tiles.make<kThreads>(offsets, places, row_tiles);
  const int warp = __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  if (warp == kLoader) load_strips(ring, tiles, of);
  if constexpr (!Product::kGathers) follow();
  if (warp < kSharers<Product>) {
    Sharer<Product> sharer(ring, warp);
    for_runs<Product>(tiles, [&](const Tile& tile, int run) { sharer.multiply(of, tile, run); });
  } else if (warp == kAdder) {
    add_up(ring, tiles, of.out);
  }
}
