// The reference of decode_attention: one block a (query head, new token, sequence), softmax in two passes
// over scores kept in fp32. Narrow keys and values are dequantized as they are read. As `exact` it writes
// fp32; as `baseline` it rounds scores and probabilities to the element type, like an implementation that
// stores them between steps, and writes the element type.
#include "templates/common/convert.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/types.cuh"

#if !defined(DTYPE) || !defined(KV_DTYPE) || !defined(KV_HEAD_SCALES) || !defined(HEAD_DIM) ||     \
    !defined(PAGE) || !defined(WINDOW) || !defined(SINKS) || !defined(QUERIES) || !defined(LSE) || \
    !defined(BASELINE)
#error the reference is compiled through a plan, which defines every macro tested here
#endif

using Element = DTYPE;
using KvElement = KV_DTYPE;

constexpr int kHeadDim = HEAD_DIM;
constexpr int kPage = PAGE;
constexpr int kPageTokens = kPage == 0 ? 1 : kPage;
constexpr int kWindow = WINDOW;
constexpr bool kSinks = SINKS;
constexpr int kQueries = QUERIES;
constexpr bool kWantsLse = LSE;
constexpr bool kNarrow = sizeof(KvElement) == 1;
constexpr bool kHeadScales = KV_HEAD_SCALES;
constexpr int kWarps = 16;
constexpr int kLaneDims = kHeadDim / kWarpSize;
constexpr int kUnroll = 4;  // tokens a warp has under way

#if BASELINE
using Output = Element;
__device__ __forceinline__ float rounded(float value) { return round_through<Element>(value); }
__device__ __forceinline__ Output output(float value) { return Element::from_float(value); }
#else
using Output = float;
__device__ __forceinline__ float rounded(float value) { return value; }
__device__ __forceinline__ Output output(float value) { return value; }
#endif

struct KvStrides {
  i64 block;
  i64 head;
  i64 token;
};

// This lane's dimensions of a row.
struct LaneRow {
  float values[kLaneDims];

  __device__ __forceinline__ explicit LaneRow(const E4m3* row) {
    const u16* source = reinterpret_cast<const u16*>(row + threadIdx.x % kWarpSize * kLaneDims);
#pragma unroll
    for (int i = 0; i < kLaneDims / 2; ++i) {
      const u32 pair = widen_e4m3x2(source[i]);
      values[2 * i] = Fp16::to_float({static_cast<u16>(pair)});
      values[2 * i + 1] = Fp16::to_float({static_cast<u16>(pair >> 16)});
    }
  }

  __device__ __forceinline__ explicit LaneRow(const Element* row) {
    const u32* source = reinterpret_cast<const u32*>(row + threadIdx.x % kWarpSize * kLaneDims);
#pragma unroll
    for (int i = 0; i < kLaneDims / 2; ++i) {
      const u32 pair = source[i];
      values[2 * i] = Element::to_float({static_cast<u16>(pair)});
      values[2 * i + 1] = Element::to_float({static_cast<u16>(pair >> 16)});
    }
  }
};

// Over the block; every thread gets the result. `shared` holds kWarps floats.
template <typename Reduce>
__device__ float reduce_block(float* shared, float value, Reduce reduce) {
  const int warp = threadIdx.x / kWarpSize;
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value = reduce(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  __syncthreads();
  if (threadIdx.x % kWarpSize == 0) shared[warp] = value;
  __syncthreads();
  value = shared[0];
  for (int other = 1; other < kWarps; ++other) value = reduce(value, shared[other]);
  return value;
}

extern "C" __global__ void __launch_bounds__(kWarps* kWarpSize)
    decode_attention_reference(const Element* q, const KvElement* k, const KvElement* v, const float* k_scale,
                               const float* v_scale, const i32* page_table, const i32* lengths,
                               const float* sinks, Output* o, float* lse, float* scores, KvStrides strides,
                               int max_pages, int context, int group, float scale) {
  __shared__ float reduced[kWarps];
  __shared__ float sums[kWarps][kHeadDim];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int batch = blockIdx.z, kv_head = static_cast<int>(blockIdx.x) / group;
  const i64 row = (static_cast<i64>(batch) * kQueries + blockIdx.y) * gridDim.x + blockIdx.x;
  // The new tokens end the sequence, and each sees what lies before the next.
  const int end = max_of(0, lengths[batch] - (kQueries - 1) + static_cast<int>(blockIdx.y));
  const int begin = kWindow == 0 ? 0 : max_of(0, end - kWindow);
  const float key_scale = kNarrow ? k_scale[kHeadScales ? kv_head : 0] : 1.0f;
  const float value_scale = kNarrow ? v_scale[kHeadScales ? kv_head : 0] : 1.0f;
  const LaneRow query(q + row * kHeadDim);
  scores += row * context;

  const auto kv_row = [&](const KvElement* base, float scaled_by, int token) {
    i64 block = batch;
    int within = token;
    if (kPage > 0) {
      block = page_table[static_cast<i64>(batch) * max_pages + token / kPageTokens];
      within = token % kPageTokens;
    }
    LaneRow dequantized(base + block * strides.block + kv_head * strides.head + within * strides.token);
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) dequantized.values[i] = rounded(dequantized.values[i] * scaled_by);
    return dequantized;
  };

  const float sink = kSinks ? sinks[blockIdx.x] : minus_infinity();
  float highest = sink;
#pragma unroll kUnroll
  for (int token = begin + warp; token < end; token += kWarps) {
    const LaneRow key = kv_row(k, key_scale, token);
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) dot = fmaf(query.values[i], key.values[i], dot);
    const float score = rounded(rounded(sum_across<kWarpSize>(dot)) * scale);
    if (lane == 0) scores[token] = score;
    highest = fmaxf(highest, score);
  }
  highest = reduce_block(reduced, highest, [](float a, float b) { return fmaxf(a, b); });

  float denominator = 0;
  for (int token = begin + static_cast<int>(threadIdx.x); token < end; token += kWarps * kWarpSize) {
    denominator += expf(scores[token] - highest);
  }
  denominator = reduce_block(reduced, denominator, [](float a, float b) { return a + b; });
  if (kSinks) denominator += expf(sink - highest);
  if (kWantsLse && threadIdx.x == 0) lse[row] = highest + logf(denominator);

  float total[kLaneDims] = {};
#pragma unroll kUnroll
  for (int token = begin + warp; token < end; token += kWarps) {
    const LaneRow value = kv_row(v, value_scale, token);
    const float p = rounded(expf(scores[token] - highest) / denominator);
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) total[i] = fmaf(p, value.values[i], total[i]);
  }
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) sums[warp][lane * kLaneDims + i] = total[i];
  __syncthreads();
  for (int dim = threadIdx.x; dim < kHeadDim; dim += kWarps * kWarpSize) {
    float sum = 0;
    for (int other = 0; other < kWarps; ++other) sum += sums[other][dim];
    o[row * kHeadDim + dim] = output(sum);
  }
}
