// Products of few rows: x weight^T + bias, where the time is that of reading the weights once. Shared by
// few_rows_linear and gate_route.
//
// A tile is some rows of the weights, that is, some outputs of all tokens. Blocks take tiles in turn. SPLIT warps share
// the columns of a tile, and their sums meet in shared memory. PRODUCT_LANES lanes of a warp read a row side by side,
// 16 bytes each, through a ring of copies to shared memory: what a lane has copied it alone reads, so that no barrier
// is needed. With 4 of them the products are those of mma.sync, whose rows are tokens and whose columns are outputs;
// the order of the columns that are added up is the same on both sides, and otherwise free.
//
// Macros: IN, OUT, HAS_BIAS, Element; the parameters TOKENS (that a block takes), WARPS, SPLIT, PRODUCT_LANES,
// PRODUCT_ROWS (of each lane), UNROLL (vectors of each of them in a stage), STAGES (of the ring), HOLD (1: a lane's
// values of x stay in registers), AHEAD (1: the ring is filled before the kernel in front has ended, which therefore
// must not write weights), PREFETCH (stages behind those that are prefetched to L2 by then).
#pragma once

#include "templates/common/cp_async.cuh"
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/vectors.cuh"

namespace few_rows {

constexpr int kIn = IN, kOut = OUT, kTokens = TOKENS, kWarps = WARPS, kSplit = SPLIT, kLanes = PRODUCT_LANES,
              kRows = PRODUCT_ROWS, kUnroll = UNROLL, kStages = STAGES;
constexpr bool kMma = kLanes == 4, kHold = HOLD;
constexpr int kThreads = kWarps * kWarpSize, kTeams = kWarps / kSplit;
constexpr int kPassRows = kWarpSize / kLanes, kWarpRows = kPassRows * kRows, kTileRows = kWarpRows * kTeams;
constexpr int kTiles = ceil_div(kOut, kTileRows);
constexpr int kElements = 8, kStepColumns = kLanes * kElements, kStageColumns = kUnroll * kStepColumns;
constexpr int kSliceStages = ceil_div(ceil_div(kIn, kStageColumns), kSplit);  // of a tile, for a warp
constexpr int kSteps = kSliceStages * kUnroll;
constexpr int kOwnTokens = kMma ? kTokens / 8 : kTokens;  // whose values a lane reads
constexpr int kSums = kMma ? 4 : kTokens;                 // of each of a lane's rows
constexpr int kVectorBytes = 16, kStageBytes = kRows * kUnroll * kThreads * kVectorBytes;
constexpr int kParts = kWarps * kWarpRows * kTokens;
static_assert(kWarps % kSplit == 0 && kStages >= 2 && (!kMma || kTokens == 8 || kTokens == 16),
              "the space keeps to it");

using Vector = VectorOf<kVectorBytes>;

__device__ __forceinline__ int lane_id() { return int(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int warp_id() { return int(threadIdx.x) / kWarpSize; }

// A lane's first column, in the first step of its warp's columns.
__device__ __forceinline__ int first_column() {
  return warp_id() % kSplit * (kSteps * kStepColumns) + lane_id() % kLanes * kElements;
}

// A lane's first row in a tile.
__device__ __forceinline__ int first_row() { return warp_id() / kSplit * kWarpRows + lane_id() / kLanes; }

// A lane's weights, stage by stage, in the order in which they are multiplied.
struct WeightStream {
  const Element* weight;
  i64 stride;
  int tile, stage;

  __device__ __forceinline__ bool has_more() const { return tile < kTiles; }

  __device__ __forceinline__ void advance() {
    if (++stage < kSliceStages) return;
    stage = 0;
    tile += int(gridDim.x);
  }

  // Calls use(vector of the stage, address, whether there are weights).
  template <typename Use>
  __device__ __forceinline__ void each(Use use) const {
    const int row = tile * kTileRows + first_row(), column = first_column() + stage * kStageColumns;
    const Element* const from = weight + row * stride + column;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        use(r * kUnroll + u, from + r * kPassRows * stride + u * kStepColumns,
            row + r * kPassRows < kOut && column + u * kStepColumns < kIn);
    }
  }
};

// A stage to its slot of the ring; a group of copies in any case.
__device__ __forceinline__ void copy_stage(WeightStream& stream, u32 slot) {
  if (stream.has_more()) {
    stream.each([&](int vector, const Element* from, bool valid) {
      cp_async_16_of_constant(slot + vector * (kThreads * kVectorBytes), from, valid);
    });
    stream.advance();
  }
  cp_async_commit();
}

__device__ __forceinline__ void fill_ring(WeightStream& stream, u32 ring) {
#pragma unroll
  for (int s = 0; s + 1 < kStages; ++s) copy_stage(stream, ring + s * kStageBytes);
}

// One lane asks for each line.
__device__ __forceinline__ void prefetch_stages(WeightStream stream) {
  constexpr int kLine = 64;  // elements
  for (int s = 0; s < PREFETCH && stream.has_more(); ++s) {
    stream.each([&](int, const Element* from, bool valid) {
      const int column = lane_id() % kLanes * kElements;
      if (valid && (kStepColumns < kLine ? column == 0 : column % kLine == 0)) prefetch_to_l2(from);
    });
    stream.advance();
  }
}

struct Layer {
  const Element *x, *weight, *bias;
  i64 x_row, weight_row;
  int tokens;
};

// The first of the block's tokens.
__device__ __forceinline__ int first_token() { return int(blockIdx.y) * kTokens; }

// The values of a lane's tokens that a step multiplies.
__device__ __forceinline__ void read_x(const Layer& layer, int step, Vector (&values)[kOwnTokens]) {
  const int column = first_column() + step * kStepColumns;
#pragma unroll
  for (int t = 0; t < kOwnTokens; ++t) {
    const int token = first_token() + (kMma ? lane_id() / kLanes + 8 * t : t);
    values[t] = token < layer.tokens && column < kIn ? load_vector<kVectorBytes>(layer.x + token * layer.x_row + column)
                                                     : zero_vector<kVectorBytes>();
  }
}

template <int kCount>
using SumsOf = float[kRows][kCount];
using Sums = SumsOf<kSums>;

template <int kCount>
__device__ __forceinline__ void add_products(SumsOf<kCount>& sums, const Vector (&x)[kOwnTokens],
                                             const Vector (&weights)[kRows]) {
  if constexpr (kMma) {
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      const u32 a[4] = {x[0].words[half], kTokens > 8 ? x[kOwnTokens - 1].words[half] : 0u, x[0].words[half + 1],
                        kTokens > 8 ? x[kOwnTokens - 1].words[half + 1] : 0u};
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        mma_16816<Element>(sums[r], a, weights[r].words[half], weights[r].words[half + 1]);
    }
  } else {
#pragma unroll
    for (int w = 0; w < kVectorBytes / 4; ++w) {
      float low[kRows], high[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) Element::unpack(weights[r].words[w], low[r], high[r]);
#pragma unroll
      for (int t = 0; t < kOwnTokens; ++t) {
        float x_low, x_high;
        Element::unpack(x[t].words[w], x_low, x_high);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          sums[r][t] += low[r] * x_low;
          sums[r][t] += high[r] * x_high;
        }
      }
    }
  }
}

// The first of the sums that a lane holds for all that share its row, and whether it is the one to write them.
struct Held {
  int first;
  bool writes;
};

// Adds up `kCount` values of each of 2 kDistance lanes. At each distance a lane keeps half of them and gives the other
// half away, as long as it has two.
template <int kDistance, int kCount>
__device__ __forceinline__ void fold(float (&values)[kRows * kTokens], Held& held) {
  const bool upper = (lane_id() & kDistance) != 0;
  if constexpr (kCount == 1) {
    values[0] += __shfl_xor_sync(kWholeWarp, values[0], kDistance);
    held.writes = held.writes && !upper;
  } else {
    constexpr int kHalf = kCount / 2;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float given = upper ? values[i] : values[i + kHalf], kept = upper ? values[i + kHalf] : values[i];
      values[i] = kept + __shfl_xor_sync(kWholeWarp, given, kDistance);
    }
    held.first += upper ? kHalf : 0;
  }
  if constexpr (kDistance > 1) fold<kDistance / 2, (kCount > 1 ? kCount / 2 : 1)>(values, held);
}

// A warp's sums to `parts`, [rows of the warp, tokens].
__device__ __forceinline__ void write_parts(Sums& sums, float* parts) {
  const int lane = lane_id();
  if constexpr (kMma) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kTokens / 4; ++i)
        parts[(r * kPassRows + lane % 4 * 2 + i % 2) * kTokens + lane / 4 + i / 2 * 8] = sums[r][i];
    }
  } else {
    float values[kRows * kTokens];
#pragma unroll
    for (int i = 0; i < kRows * kTokens; ++i) values[i] = sums[i / kTokens][i % kTokens];
    Held held{0, true};
    fold<kLanes / 2, kRows * kTokens>(values, held);
    constexpr int kLeft = max_of(1, kRows * kTokens / kLanes);
    if (!held.writes) return;
#pragma unroll
    for (int i = 0; i < kLeft; ++i) {
      const int at = held.first + i, row = at / kTokens * kPassRows + lane / kLanes;
      parts[row * kTokens + at % kTokens] = values[i];
    }
  }
}

// Adds up the parts of a tile's warps, in their order, and calls store(token, row of the weights, sum). A warp whose
// columns are its own does so for itself.
template <typename Store>
__device__ __forceinline__ void store_tile(const Layer& layer, int tile, const float* parts, const Store& store) {
  constexpr bool kAlone = kSplit == 1;
  constexpr int kWriters = kAlone ? kWarpSize : kThreads, kWritten = kAlone ? kWarpRows : kTileRows;
  const int begin = kAlone ? warp_id() * kWarpRows : 0;
#pragma unroll
  for (int base = 0; base < kWritten * kTokens; base += kWriters) {
    const int i = base + int(threadIdx.x) % kWriters;
    if (kWritten * kTokens % kWriters != 0 && i >= kWritten * kTokens) break;
    const int row = begin + i % kWritten, token = first_token() + i / kWritten, output = tile * kTileRows + row;
    if (output >= kOut || token >= layer.tokens) continue;
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kSplit; ++s)
      sum += parts[((row / kWarpRows * kSplit + s) * kWarpRows + row % kWarpRows) * kTokens + i / kWritten];
    if (HAS_BIAS) sum += Element::to_float(layer.bias[output]);
    store(token, output, sum);
  }
}

// The block's share of x weight^T + bias: store(token, output, sum) is called once for each of its sums. Waits for the
// kernel in front, after what AHEAD and PREFETCH ask for. `shared` has the ring, and behind it 2 kParts floats.
template <typename Store>
__device__ __forceinline__ void multiply_rows(const Layer& layer, u8* shared, const Store& store) {
  const u32 ring = shared_address(shared) + threadIdx.x * kVectorBytes;
  float* const parts = reinterpret_cast<float*>(shared + kStages * kStageBytes);
  WeightStream stream{layer.weight, layer.weight_row, int(blockIdx.x), 0};
  if (AHEAD) fill_ring(stream, ring);
  if (PREFETCH > 0) prefetch_stages(stream);
  wait_for_predecessor();
  if (!AHEAD) fill_ring(stream, ring);

  Vector held[kHold ? kSteps : 1][kOwnTokens];
  if (kHold) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) read_x(layer, step, held[step]);
  }
  const u32 last = ring + (kStages - 1) * kStageBytes;
  u32 slot = ring;
  int turn = 0;
  for (int tile = int(blockIdx.x); tile < kTiles; tile += int(gridDim.x)) {
    Sums sums = {};
#pragma unroll(kHold ? kSliceStages : 1)
    for (int stage = 0; stage < kSliceStages; ++stage) {
      cp_async_wait<kStages - 2>();
      // To the slot of the stage before, whose weights have been read.
      copy_stage(stream, slot == ring ? last : slot - kStageBytes);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        Vector weights[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          weights[r].packed = load_shared(slot + (r * kUnroll + u) * (kThreads * kVectorBytes));
        if (kHold) {
          add_products(sums, held[kHold ? stage * kUnroll + u : 0], weights);
        } else {
          Vector values[kOwnTokens];
          read_x(layer, stage * kUnroll + u, values);
          add_products(sums, values, weights);
        }
      }
      slot = slot == last ? ring : slot + kStageBytes;
    }
    float* const own = parts + turn * kParts;
    write_parts(sums, own + warp_id() * (kWarpRows * kTokens));
    if (kSplit == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    store_tile(layer, tile, own, store);
    turn ^= 1;
  }
}

}  // namespace few_rows
