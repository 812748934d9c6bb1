// The output of each token: the weighted sum of the rows that its experts made of it, which lie where inverse[token,
// slot] says. docs/router.md has the layouts.
//
// A team, which is a warp or a block, takes a token at a time; SPLITS blocks share a token's columns.
//
// Macros: those of shape.cuh; TEAM (a Team), WARPS, SPLITS, VECTOR (bytes of a row that a lane reads at once), VECTORS
// (that a lane reads of each row before it adds), ROWS (from which it reads before it adds), AHEAD (1: a team reads the
// slots of its next token before it adds up the current one), STREAM (1: rows leave the caches first).
#include "templates/common/dependent_launch.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_combine/shape.cuh"

enum class Team { warp, block };
constexpr bool kOneTeam = Team::TEAM == Team::block;

constexpr int kThreads = WARPS * kWarpSize;
constexpr int kTeamThreads = kOneTeam ? kThreads : kWarpSize, kTeams = kThreads / kTeamThreads;
constexpr int kElements = VECTOR / 2, kWords = VECTOR / 4;             // of a vector
constexpr int kTile = ceil_div(ceil_div(kHidden, SPLITS), 128) * 128;  // columns of a block
constexpr int kSteps = ceil_div(min_of(kTile, kHidden), kElements* kTeamThreads);
constexpr int kVectors = VECTORS, kRows = min_of(ROWS, kTopK);
static_assert(kHidden % kElements == 0, "the problem keeps to it");

using RowVector = VectorOf<VECTOR>;

struct CombineArguments {
  const Bf16* rows;
  const int* inverse;
  const float* weights;
  Bf16* out;
  i64 out_row;  // elements
};

// A token's rows and their weights. A dropped slot has place -1, and counts nothing whatever its weight is.
struct Slots {
  int places[kTopK];
  float weights[kTopK];
};

__device__ __forceinline__ Slots slots_of(const CombineArguments& a, int token) {
  Slots slots;
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    slots.places[j] = a.inverse[token * kTopK + j];
    slots.weights[j] = a.weights[token * kTopK + j];
  }
#pragma unroll
  for (int j = 0; j < kTopK; ++j) slots.weights[j] = slots.places[j] < 0 ? 0.0f : slots.weights[j];
  return slots;
}

// Reads of all rows are unconditional, so that they are in flight together: for a dropped slot, and past the end, of
// something else, which counts nothing.
__device__ __forceinline__ RowVector read_columns(const CombineArguments& a, int place, int column) {
  const Bf16* const source = a.rows + i64(max_of(place, 0)) * kHidden + column;
  RowVector vector;
  if constexpr (STREAM) {
    vector = load_vector_once<VECTOR>(source);  // the place was read behind the wait
  } else {
    vector = load_vector<VECTOR>(source);
  }
#pragma unroll
  for (int w = 0; w < kWords; ++w) vector.words[w] = place < 0 ? 0 : vector.words[w];
  return vector;
}

__device__ __forceinline__ void add_vector(float (&sums)[kElements], float weight, RowVector vector) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    float low, high;
    Bf16::unpack(vector.words[w], low, high);
    sums[2 * w] = add_share(weight, low, sums[2 * w]);
    sums[2 * w + 1] = add_share(weight, high, sums[2 * w + 1]);
  }
}

__device__ __forceinline__ void combine_token(const CombineArguments& a, int token, const Slots& slots) {
  const int thread = int(threadIdx.x) % kTeamThreads;
  const int first = int(blockIdx.y) * kTile, end = min_of(first + kTile, kHidden);
#pragma unroll 1
  for (int begin = 0; begin < kSteps; begin += kVectors) {
    const auto column = [&](int v) { return first + ((begin + v) * kTeamThreads + thread) * kElements; };
    float sums[kVectors][kElements] = {};
#pragma unroll
    for (int batch = 0; batch < kTopK; batch += kRows) {
      RowVector vectors[kRows][kVectors];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          if (batch + r < kTopK)
            vectors[r][v] = read_columns(a, slots.places[batch + r], min_of(column(v), end - kElements));
        }
      }
      __syncwarp();  // keeps the assembler from putting reads off until after the first sums
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (batch + r >= kTopK) break;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) add_vector(sums[v], slots.weights[batch + r], vectors[r][v]);
      }
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) < end) store_vector<false>(a.out + token * a.out_row + column(v), pack_vector<Bf16>(sums[v]));
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    moe_combine(const Bf16* rows, const int* inverse, const float* weights, Bf16* out, i64 out_row, int tokens) {
  allow_dependent_launch();
  wait_for_predecessor();
  const CombineArguments a{rows, inverse, weights, out, out_row};
  const int stride = int(gridDim.x) * kTeams;
  int token = int(blockIdx.x) * kTeams + (kOneTeam ? 0 : int(threadIdx.x) / kWarpSize);
  if (AHEAD) {
    Slots next{};
    if (token < tokens) next = slots_of(a, token);
    for (; token < tokens; token += stride) {
      const Slots slots = next;
      if (token + stride < tokens) next = slots_of(a, token + stride);
      combine_token(a, token, slots);
    }
  } else {
    for (; token < tokens; token += stride) combine_token(a, token, slots_of(a, token));
  }
}
