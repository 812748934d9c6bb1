// RMSNorm (NORM) and RoPE of the query and key heads of a packed projection [tokens, q heads, k heads, v heads]; keys
// go to rows by token, or with values to pages by slot. docs/small_operations.md has the tensors.
//
// A team of LANES threads takes a head. A thread's part of it is some units of two vectors, whose values RoPE turns
// together, or leaves as they are behind ROTARY_DIM. A thread reads all of its part before it writes, so outputs may
// lie where inputs did.
//
// Macros: those of arguments.cuh; ROTARY_DIM, NORM, NEIGHBORS (1: values 2 i and 2 i + 1 turn together; 0: i and
// i + ROTARY_DIM / 2); the parameters THREADS, LANES, VECTOR (bytes), HEADS (that a thread reads from before it turns
// the first); BY_HEADS (1: neighboring teams take a head of neighboring tokens; 0: neighboring heads of a token).
#include "templates/common/dependent_launch.cuh"
#include "templates/common/quantize.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/vectors.cuh"
#include "templates/qk_norm_rope/arguments.cuh"

constexpr int kThreads = THREADS, kLanes = LANES, kTeams = kThreads / kLanes, kTasks = HEADS;
constexpr int kElements = VECTOR / 2, kWords = VECTOR / 4;  // of a vector
constexpr int kTurned = ROTARY_DIM / 2 / kElements;         // units that RoPE turns; the others follow
constexpr int kUnits = kTurned + ceil_div(kHeadDim - ROTARY_DIM, 2 * kElements), kSteps = ceil_div(kUnits, kLanes);
static_assert(ROTARY_DIM % 16 == 0 && kHeadDim % 8 == 0, "the problem keeps to it");
static_assert(kWords % 2 == 0, "two words become one of e4m3");

using HeadVector = VectorOf<VECTOR>;
using Arguments = HeadArguments<Element, Cached>;

// A thread's part of a head: two vectors a unit.
struct Part {
  HeadVector first[kSteps], second[kSteps];
};

// The unit's elements of a head; `second` may lie past the end.
struct Unit {
  int index, first, second;

  __device__ __forceinline__ explicit Unit(int step) {
    index = step * kLanes + int(threadIdx.x) % kLanes;
    const int left = ROTARY_DIM + (index - kTurned) * 2 * kElements;  // of a unit that is not turned
    const bool pairs = NEIGHBORS || !is_turned();
    first = !is_turned() ? left : NEIGHBORS ? index * 2 * kElements : index * kElements;
    second = pairs ? first + kElements : first + ROTARY_DIM / 2;
  }
  __device__ __forceinline__ bool is_turned() const { return index < kTurned; }
  __device__ __forceinline__ bool has_first() const { return index < kUnits; }
  __device__ __forceinline__ bool has_second() const { return index < kUnits && second < kHeadDim; }
};

__device__ __forceinline__ void read_table(const float* from, float (&values)[kElements]) {
#pragma unroll
  for (int i = 0; i < kElements; i += 4) {
    const VectorOf<16> four = load_vector<16>(from + i);
#pragma unroll
    for (int w = 0; w < 4; ++w) values[i + w] = __uint_as_float(four.words[w]);
  }
}

template <typename Narrow>
__device__ __forceinline__ void read_table(const Narrow* from, float (&values)[kElements]) {
  unpack_vector<Narrow>(load_vector<VECTOR>(from), values);
}

__device__ __forceinline__ Part read_head(const Element* head) {
  Part part;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const Unit unit(step);
    part.first[step] =
        head != nullptr && unit.has_first() ? load_vector<VECTOR>(head + unit.first) : zero_vector<VECTOR>();
    part.second[step] =
        head != nullptr && unit.has_second() ? load_vector<VECTOR>(head + unit.second) : zero_vector<VECTOR>();
  }
  return part;
}

__device__ __forceinline__ float squares_of(const Part& part) {
  float sum = 0;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    float first[kElements], second[kElements];
    unpack_vector<Element>(part.first[step], first);
    unpack_vector<Element>(part.second[step], second);
#pragma unroll
    for (int e = 0; e < kElements; ++e) sum += first[e] * first[e] + second[e] * second[e];
  }
  return sum;
}

__device__ __forceinline__ void weigh(const Element* weight, int at, float factor, float (&values)[kElements]) {
  float weights[kElements];
  unpack_vector<Element>(load_vector<VECTOR>(weight + at), weights);
#pragma unroll
  for (int e = 0; e < kElements; ++e) values[e] *= factor * weights[e];
}

// Turns pairs of values by the angles of the unit: of `first` and `second`, or of neighbors in each of them.
__device__ __forceinline__ void turn(const Arguments& a, i64 token, const Unit& unit, float (&first)[kElements],
                                     float (&second)[kElements]) {
  float cos[kElements], sin[kElements];
  read_table(a.cos + token * a.cos_row + unit.index * kElements, cos);
  read_table(a.sin + token * a.sin_row + unit.index * kElements, sin);
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    float& x = !NEIGHBORS ? first[e] : e < kElements / 2 ? first[2 * e] : second[2 * e - kElements];
    float& y = !NEIGHBORS ? second[e] : e < kElements / 2 ? first[2 * e + 1] : second[2 * e + 1 - kElements];
    const float turned = x * cos[e] - y * sin[e];
    y = y * cos[e] + x * sin[e];
    x = turned;
  }
}

// The address that a head is written to: one of the two, or neither.
struct Target {
  Element* wide = nullptr;
  E4m3* narrow = nullptr;
  float inverse = 1;  // of the scale

  __device__ __forceinline__ Target() = default;
  __device__ __forceinline__ Target(const Arguments& a, i64 token, int head) {
    if (!Arguments::is_cached(head)) {
      wide = a.in_rows(token, head);
    } else if (kNarrow) {
      narrow = reinterpret_cast<E4m3*>(a.in_cache(token, head));
      inverse = inverse_of(a.scale(head));
    } else {
      wide = reinterpret_cast<Element*>(a.in_cache(token, head));
    }
  }
  __device__ __forceinline__ bool is_none() const { return wide == nullptr && (!kNarrow || narrow == nullptr); }

  // The vector, or its values where they become e4m3.
  __device__ __forceinline__ void store(int at, HeadVector vector, const float (&values)[kElements]) const {
    if (!kNarrow || narrow == nullptr) {
      store_vector<false>(wide + at, vector);
      return;
    }
    VectorOf<VECTOR / 2> quantized;
#pragma unroll
    for (int w = 0; w < kElements / 4; ++w)
      quantized.words[w] = quantize_pair(values[4 * w], values[4 * w + 1], inverse) |
                           quantize_pair(values[4 * w + 2], values[4 * w + 3], inverse) << 16;
    store_vector<false>(narrow + at, quantized);
  }
};

// All lanes of a team take part.
__device__ __forceinline__ void write_head(const Arguments& a, i64 token, int head, const Part& part,
                                           const Target& target, float eps) {
  const bool is_value = Arguments::is_value(head);
  const Element* const weight = head < kQHeads ? a.q_weight : a.k_weight;
  const float factor = NORM ? rsqrtf(sum_across<kLanes>(squares_of(part)) * (1.0f / kHeadDim) + eps) : 1.0f;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const Unit unit(step);
    if (target.is_none() || !unit.has_first()) continue;
    HeadVector out_first = part.first[step], out_second = part.second[step];
    float first[kElements], second[kElements];
    const bool changes = !is_value && (NORM || unit.is_turned());
    if (kNarrow || changes) {
      unpack_vector<Element>(out_first, first);
      unpack_vector<Element>(out_second, second);
    }
    if (changes) {
      if (NORM) {
        weigh(weight, unit.first, factor, first);
        if (unit.has_second()) weigh(weight, unit.second, factor, second);
      }
      if (unit.is_turned()) turn(a, token, unit, first, second);
      out_first = pack_vector<Element>(first);
      out_second = pack_vector<Element>(second);
    }
    target.store(unit.first, out_first, first);
    if (unit.has_second()) target.store(unit.second, out_second, second);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) qk_norm_rope(HEAD_PARAMETERS(Element, Cached)) {
  allow_dependent_launch();
  wait_for_predecessor();
  const Arguments a HEAD_ARGUMENTS;
  const int all = tokens * kHeads, begin = int(blockIdx.x) * kTeams * kTasks + int(threadIdx.x) / kLanes;
  Part parts[kTasks];
  const auto token_of = [&](int task) { return BY_HEADS ? task % tokens : task / kHeads; };
  const auto head_of = [&](int task) { return BY_HEADS ? task / tokens : task % kHeads; };
#pragma unroll
  for (int t = 0; t < kTasks; ++t) {
    const int task = begin + t * kTeams;
    parts[t] = read_head(task < all ? qkv + i64(token_of(task)) * qkv_row + head_of(task) * kHeadDim : nullptr);
  }
#pragma unroll
  for (int t = 0; t < kTasks; ++t) {
    const int task = begin + t * kTeams, token = token_of(min_of(task, all - 1)), head = head_of(min_of(task, all - 1));
    write_head(a, token, head, parts[t], task < all ? Target(a, token, head) : Target(), eps);
  }
}
