// out = act(gate) * up of rows that hold both, in the inputs' type, or in e4m3 with a scale for 128 values:
// value = e4m3 * scale. docs/small_operations.md has the tensors.
//
// A thread reads a vector of gate and one of up at a time, or two in which they take turns, and writes as many values.
//
// Macros: INTERMEDIATE, CLAMPED (gpt-oss' activation), IN_TURN, NARROW (e4m3), Element; the parameters THREADS, VECTOR
// (bytes) and FLIGHT (vectors of each that a thread reads before it writes the first).
#include "templates/common/dependent_launch.cuh"
#include "templates/common/quantize.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/vectors.cuh"

constexpr int kWidth = INTERMEDIATE, kThreads = THREADS, kFlight = FLIGHT;
constexpr int kElements = VECTOR / 2, kWords = VECTOR / 4;  // of a vector
constexpr int kGroup = 128, kGroups = ceil_div(kWidth, kGroup), kGroupLanes = kGroup / kElements;
// Chunks of a row; in e4m3 whole groups, so that a group's lanes are neighbors in a warp.
constexpr u32 kChunks = NARROW ? kGroups * kGroupLanes : kWidth / kElements;
static_assert(kWidth % kElements == 0, "the problem keeps to it");
static_assert(kWords % 2 == 0, "two words become one of e4m3");

using RowVector = VectorOf<VECTOR>;

// A row and the first column that a thread works on, or none.
struct Place {
  u32 token;
  int column;
  bool is_there;
};

struct Pair {
  RowVector first, second;
};

__device__ __forceinline__ Pair read_pair(const Element* x, i64 x_row, const Place& at) {
  if (!at.is_there) return {zero_vector<VECTOR>(), zero_vector<VECTOR>()};
  const Element* const from = x + i64(at.token) * x_row + (IN_TURN ? 2 * at.column : at.column);
  return {load_vector<VECTOR>(from), load_vector<VECTOR>(from + (IN_TURN ? kElements : kWidth))};
}

__device__ __forceinline__ float activated(float gate, float up) {
  if (!CLAMPED) return __fdividef(gate, 1.0f + __expf(-gate)) * up;
  const float least = gate > 7.0f ? 7.0f : gate;  // NaN stays
  const float clamped = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
  return __fdividef(least, 1.0f + __expf(-1.702f * least)) * (clamped + 1.0f);
}

__device__ __forceinline__ void activate(const Pair& pair, float (&values)[kElements]) {
  float first[kElements], second[kElements];
  unpack_vector<Element>(pair.first, first);
  unpack_vector<Element>(pair.second, second);
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (!IN_TURN) {
      values[e] = activated(first[e], second[e]);
    } else {
      const int at = 2 * e % kElements;
      values[e] = e < kElements / 2 ? activated(first[at], first[at + 1]) : activated(second[at], second[at + 1]);
    }
  }
}

// All lanes of a warp take part, those without a place with zeros.
__device__ __forceinline__ void write_values(const float (&values)[kElements], void* out, float* scales, i64 out_row,
                                             const Place& at) {
  if constexpr (!NARROW) {
    const RowVector vector = pack_vector<Element>(values);
    if (at.is_there) store_vector<false>(static_cast<Element*>(out) + i64(at.token) * out_row + at.column, vector);
  } else {
    const float scale = scale_of(max_across<kGroupLanes>(largest_magnitude(values)));
    const VectorOf<kElements> vector = quantize_vector(values, inverse_of(scale));
    if (!at.is_there) return;
    store_vector<false>(static_cast<u8*>(out) + i64(at.token) * out_row + at.column, vector);
    if (at.column % kGroup == 0) scales[i64(at.token) * kGroups + at.column / kGroup] = scale;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    act_mul(const Element* x, void* out, float* scales, i64 x_row, i64 out_row, i32 tokens) {
  allow_dependent_launch();
  wait_for_predecessor();
  const u32 begin = blockIdx.x * u32(kThreads * kFlight) + threadIdx.x;
  Place places[kFlight];
  Pair pairs[kFlight];
#pragma unroll
  for (int i = 0; i < kFlight; ++i) {
    const u32 task = begin + u32(i * kThreads), token = task / kChunks;
    const int column = int(task % kChunks) * kElements;
    places[i] = {token, column, token < u32(tokens) && column < kWidth};
    pairs[i] = read_pair(x, x_row, places[i]);
  }
#pragma unroll
  for (int i = 0; i < kFlight; ++i) {
    float values[kElements];
    activate(pairs[i], values);
    write_values(values, out, scales, out_row, places[i]);
  }
}
