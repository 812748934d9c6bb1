// RMSNorm of rows: out = h / sqrt(mean(h * h) + eps) * weight. With a residual h = x + residual, rounded to the type
// and written to residual_out, else h = x. The output is of the inputs' type, or e4m3 with a scale for 128 values, for
// a row or the caller's one: value = e4m3 * scale. docs/small_operations.md has the tensors.
//
// A team of THREADS / ROWS threads takes a row. Each element is read and written by one thread, and no output is
// written before its input has been read: residual_out may be residual or x, and out may be x.
//
// Macros: HIDDEN, RESIDUAL, PLUS_ONE (the weight + 1), NARROW (e4m3), TOKEN_SCALE (a scale for a row), STATIC_SCALE,
// Element; the parameters THREADS, ROWS, VECTOR (bytes), FLIGHT (vectors that a thread reads before it adds up the
// first), KEEP (1: a row stays in registers), HOLD (1: so do weights, from row to row), PREFETCH (1: weights are
// prefetched to L2 before the kernel in front has ended).
#include "templates/common/dependent_launch.cuh"
#include "templates/common/l2_policy.cuh"
#include "templates/common/quantize.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/vectors.cuh"

constexpr int kHidden = HIDDEN, kThreads = THREADS, kRows = ROWS, kFlight = FLIGHT;
constexpr bool kResidual = RESIDUAL, kNarrow = NARROW, kTokenScale = NARROW && TOKEN_SCALE, kStaticScale = STATIC_SCALE;
constexpr bool kGroupScales = !kTokenScale && !kStaticScale;
constexpr bool kKeep = KEEP, kHold = HOLD;
constexpr int kTeamThreads = kThreads / kRows, kTeamWarps = kTeamThreads / kWarpSize, kWarps = kThreads / kWarpSize;
constexpr int kElements = VECTOR / 2, kWords = VECTOR / 4;  // of a vector
constexpr int kSteps = ceil_div(kHidden, kElements* kTeamThreads);
constexpr int kGroup = 128, kGroups = kTokenScale ? 1 : ceil_div(kHidden, kGroup), kGroupLanes = kGroup / kElements;
static_assert(kTeamThreads % kWarpSize == 0 && kHidden % kElements == 0, "the space and the problem keep to it");

using RowVector = VectorOf<VECTOR>;

struct NormArguments {
  const Element *x, *residual, *weight;
  void* out;
  float* scales;
  Element* residual_out;
  const float* static_scale;
  i64 x_row, residual_row, out_row, residual_out_row;  // elements
};

// A sum of squares and the largest magnitude of h * weight.
struct Totals {
  float squares, largest;
};

__device__ __forceinline__ int column_of(int step) {
  return (step * kTeamThreads + int(threadIdx.x) % kTeamThreads) * kElements;
}

// `row` is negative if the team has none.
__device__ __forceinline__ RowVector read_at(const Element* rows, i64 stride, i64 row, int column) {
  if (row < 0 || column >= kHidden) return zero_vector<VECTOR>();
  return load_vector<VECTOR>(rows + row * stride + column);
}

__device__ __forceinline__ RowVector read_weights(const NormArguments& a, int column) {
  return read_at(a.weight, 0, 0, column);
}

__device__ __forceinline__ RowVector rounded_sum(RowVector x, RowVector residual) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    float low, high, other_low, other_high;
    Element::unpack(x.words[w], low, high);
    Element::unpack(residual.words[w], other_low, other_high);
    x.words[w] = Element::pack(low + other_low, high + other_high);
  }
  return x;
}

// h times the weight.
__device__ __forceinline__ void multiply(RowVector h, RowVector weights, float (&products)[kElements]) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    float low, high, weight_low, weight_high;
    Element::unpack(h.words[w], low, high);
    Element::unpack(weights.words[w], weight_low, weight_high);
    products[2 * w] = low * (PLUS_ONE ? weight_low + 1.0f : weight_low);
    products[2 * w + 1] = high * (PLUS_ONE ? weight_high + 1.0f : weight_high);
  }
}

__device__ __forceinline__ void add_to(Totals& totals, RowVector h, RowVector weights) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    float low, high;
    Element::unpack(h.words[w], low, high);
    totals.squares += low * low;
    totals.squares += high * high;
  }
  if constexpr (kTokenScale) {
    float products[kElements];
    multiply(h, weights, products);
    totals.largest = fmaxf(totals.largest, largest_magnitude(products));
  }
}

// Over the team. Turns alternate between two places, so that one barrier a row is enough.
__device__ __forceinline__ Totals across_team(Totals own, int turn) {
  Totals all{sum_across<kWarpSize>(own.squares), kTokenScale ? max_across<kWarpSize>(own.largest) : 0.0f};
  if constexpr (kTeamWarps > 1) {
    __shared__ Totals of_warps[2][kWarps];
    const int warp = int(threadIdx.x) / kWarpSize, first = warp / kTeamWarps * kTeamWarps;
    if (threadIdx.x % kWarpSize == 0) of_warps[turn][warp] = all;
    __syncthreads();
    all = {0, 0};
#pragma unroll
    for (int w = 0; w < kTeamWarps; ++w) {
      all.squares += of_warps[turn][first + w].squares;
      all.largest = fmaxf(all.largest, of_warps[turn][first + w].largest);
    }
  }
  return all;
}

// All lanes of a warp take part, those past the end with zeros.
__device__ __forceinline__ void write_at(const NormArguments& a, i64 row, int column, const float (&values)[kElements],
                                         float row_scale) {
  const bool writes = row >= 0 && column < kHidden;
  if constexpr (!kNarrow) {
    const RowVector out = pack_vector<Element>(values);
    if (writes) store_vector<false>(static_cast<Element*>(a.out) + row * a.out_row + column, out);
  } else {
    const float scale = kGroupScales ? scale_of(max_across<kGroupLanes>(largest_magnitude(values))) : row_scale;
    const VectorOf<kElements> out = quantize_vector(values, inverse_of(scale));
    if (!writes) return;
    store_vector<false>(static_cast<u8*>(a.out) + row * a.out_row + column, out);
    if (kGroupScales && column % kGroup == 0) a.scales[row * kGroups + column / kGroup] = scale;
  }
}

__device__ __forceinline__ void normalize_row(const NormArguments& a, i64 row, const RowVector* held, float eps,
                                              int turn) {
  const auto weights_at = [&](int step) { return kHold ? held[step] : read_weights(a, column_of(step)); };
  RowVector kept[kKeep ? kSteps : 1];
  Totals own{0, 0};
#pragma unroll(kKeep || kHold ? kSteps : 1)
  for (int begin = 0; begin < kSteps; begin += kFlight) {
    RowVector h[kFlight], residual[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      h[i] = read_at(a.x, a.x_row, row, column_of(begin + i));
      if (kResidual) residual[i] = read_at(a.residual, a.residual_row, row, column_of(begin + i));
    }
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      const int step = begin + i, column = column_of(step);
      if (step >= kSteps) break;
      if (kResidual) {
        h[i] = rounded_sum(h[i], residual[i]);
        if (row >= 0 && column < kHidden) store_vector<false>(a.residual_out + row * a.residual_out_row + column, h[i]);
      }
      if (kKeep) kept[step] = h[i];
      add_to(own, h[i], kTokenScale ? weights_at(step) : h[i]);
    }
  }
  const Totals all = across_team(own, turn);
  const float factor = rsqrtf(all.squares * (1.0f / kHidden) + eps);
  const float row_scale = kStaticScale ? a.static_scale[0] : scale_of(all.largest * factor);
  if (kTokenScale && row >= 0 && threadIdx.x % kTeamThreads == 0) a.scales[row] = row_scale;
#pragma unroll(kKeep || kHold ? kSteps : 1)
  for (int step = 0; step < kSteps; ++step) {
    const int column = column_of(step);
    const RowVector h = kKeep       ? kept[step]
                        : kResidual ? read_at(a.residual_out, a.residual_out_row, row, column)
                                    : read_at(a.x, a.x_row, row, column);
    float values[kElements];
    multiply(h, weights_at(step), values);
#pragma unroll
    for (int e = 0; e < kElements; ++e) values[e] *= factor;
    write_at(a, row, column, values, row_scale);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    add_rmsnorm(const Element* x, const Element* residual, const Element* weight, void* out, float* scales,
                Element* residual_out, const float* static_scale, i64 x_row, i64 residual_row, i64 out_row,
                i64 residual_out_row, i32 tokens, float eps) {
  allow_dependent_launch();
  if (PREFETCH) {
    constexpr int kLine = 64;  // elements
    for (int column = int(threadIdx.x) * kLine; column < kHidden; column += kThreads * kLine)
      prefetch_to_l2(weight + column);
  }
  wait_for_predecessor();
  const NormArguments a{x,       residual,        weight, out, scales, residual_out, static_scale, x_row, residual_row,
                        out_row, residual_out_row};
  RowVector held[kHold ? kSteps : 1];
  if (kHold) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) held[step] = read_weights(a, column_of(step));
  }
  int turn = 0;
  for (i64 first = i64(blockIdx.x) * kRows; first < tokens; first += i64(gridDim.x) * kRows) {
    const i64 row = first + int(threadIdx.x) / kTeamThreads;
    normalize_row(a, row < tokens ? row : -1, held, eps, turn);
    turn ^= 1;
  }
}
