// The reference of decode_attention: one (query head, new token, sequence) at a time and block, softmax in two
// passes over scores kept in fp32. Narrow keys and values are dequantized as they are read. As `exact` it writes
// fp32; as `baseline` it rounds scores and probabilities to the element type, like an implementation that
// stores them between steps, and writes the element type.
#include "templates/common/attention_reference.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/types.cuh"

#if !defined(DTYPE) || !defined(KV_DTYPE) || !defined(KV_HEAD_SCALES) || !defined(HEAD_DIM) || !defined(PAGE) || \
    !defined(WINDOW) || !defined(SINKS) || !defined(QUERIES) || !defined(LSE) || !defined(BASELINE)
#error the reference is compiled through a plan, which defines every macro tested here
#endif

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
constexpr int kLaneDims = 2 * ceil_div(kHeadDim, 2 * kWarpSize);
constexpr int kLanes = kHeadDim / kLaneDims;  // that have dimensions
constexpr int kUnroll = 4;                    // tokens a warp has under way

// This lane's dimensions of a row.
struct LaneRow {
  float values[kLaneDims] = {};

  __device__ __forceinline__ explicit LaneRow(const E4m3* row) {
    if (threadIdx.x % kWarpSize >= kLanes) return;
    const u16* source = reinterpret_cast<const u16*>(row + threadIdx.x % kWarpSize * kLaneDims);
#pragma unroll
    for (int i = 0; i < kLaneDims / 2; ++i) {
      const u32 pair = widen_e4m3x2(source[i]);
      values[2 * i] = Fp16::to_float({static_cast<u16>(pair)});
      values[2 * i + 1] = Fp16::to_float({static_cast<u16>(pair >> 16)});
    }
  }

  __device__ __forceinline__ explicit LaneRow(const Element* row) {
    if (threadIdx.x % kWarpSize >= kLanes) return;
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

struct Tensors {
  const Element* q;
  const KvElement* k;
  const KvElement* v;
  const float* k_scale;
  const float* v_scale;
  const i32* page_table;
  const float* sinks;
  Output* o;
  float* lse;
  float* scores;  // this block's: one for each token
  KvStrides k_strides;
  KvStrides v_strides;
  i64 page_table_stride;
  float scale;
};

// What one row is of. The new tokens end the sequence, and each sees what lies before the next.
struct Row {
  i64 index;
  i64 q_offset;
  i64 o_offset;
  int batch;
  int head;
  int kv_head;
  int end;
};

// Adds up what the lanes of all warps have for their elements of a row.
__device__ __forceinline__ void store_sum(const float (&total)[kLaneDims], float (&sums)[kWarps][kHeadDim],
                                          Output* row) {
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    if (lane < kLanes) sums[warp][lane * kLaneDims + i] = total[i];
  }
  __syncthreads();
  for (int dim = threadIdx.x; dim < kHeadDim; dim += kWarps * kWarpSize) {
    float sum = 0;
    for (int other = 0; other < kWarps; ++other) sum += sums[other][dim];
    row[dim] = output(sum);
  }
}

__device__ void attend(const Tensors& t, const Row& at) {
  __shared__ float reduced[kWarps];
  __shared__ float sums[kWarps][kHeadDim];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const i64 row = at.index;
  const int batch = at.batch, head = at.head, kv_head = at.kv_head, end = at.end;
  const int begin = kWindow == 0 ? 0 : max_of(0, end - kWindow);
  const float key_scale = kNarrow ? t.k_scale[kHeadScales ? kv_head : 0] : 1.0f;
  const float value_scale = kNarrow ? t.v_scale[kHeadScales ? kv_head : 0] : 1.0f;
  const LaneRow query(t.q + at.q_offset);

  const auto kv_row = [&](const KvElement* base, const KvStrides& strides, float scaled_by, int token) {
    i64 block = batch;
    int within = token;
    if (kPage > 0) {
      block = t.page_table[batch * t.page_table_stride + token / kPageTokens];
      within = token % kPageTokens;
    }
    LaneRow dequantized(base + block * strides.block + kv_head * strides.head + within * strides.token);
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) dequantized.values[i] = rounded(dequantized.values[i] * scaled_by);
    return dequantized;
  };

  const float sink = kSinks ? t.sinks[head] : minus_infinity();
  float highest = sink;
#pragma unroll kUnroll
  for (int token = begin + warp; token < end; token += kWarps) {
    const LaneRow key = kv_row(t.k, t.k_strides, key_scale, token);
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) dot = fmaf(query.values[i], key.values[i], dot);
    const float score = score_of(sum_across<kWarpSize>(dot), t.scale);
    if (lane == 0) t.scores[token] = score;
    highest = fmaxf(highest, score);
  }
  highest = reduce_block(reduced, highest, [](float a, float b) { return fmaxf(a, b); });

  float denominator = 0;
  for (int token = begin + static_cast<int>(threadIdx.x); token < end; token += kWarps * kWarpSize) {
    denominator += expf(t.scores[token] - highest);
  }
  denominator = reduce_block(reduced, denominator, [](float a, float b) { return a + b; });
  if (kSinks) denominator += expf(sink - highest);
  if (kWantsLse && threadIdx.x == 0) t.lse[row] = highest + logf(denominator);

  float total[kLaneDims] = {};
#pragma unroll kUnroll
  for (int token = begin + warp; token < end; token += kWarps) {
    const LaneRow value = kv_row(t.v, t.v_strides, value_scale, token);
    const float p = rounded(expf(t.scores[token] - highest) / denominator);
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) total[i] = fmaf(p, value.values[i], total[i]);
  }
  store_sum(total, sums, t.o + at.o_offset);
}

extern "C" __global__ void __launch_bounds__(kWarps* kWarpSize)
    decode_attention_reference(const Element* q, const KvElement* k, const KvElement* v, const float* k_scale,
                               const float* v_scale, const i32* page_table, const i32* lengths, const float* sinks,
                               Output* o, float* lse, float* scores, i64 q_sequence_stride, i64 q_token_stride,
                               i64 q_head_stride, i64 o_sequence_stride, i64 o_token_stride, i64 o_head_stride,
                               i64 k_block_stride, i64 k_head_stride, i64 k_token_stride, i64 v_block_stride,
                               i64 v_head_stride, i64 v_token_stride, i64 page_table_stride, int capacity, int q_heads,
                               int kv_heads, i64 rows, float scale) {
  const Tensors tensors = {q,
                           k,
                           v,
                           k_scale,
                           v_scale,
                           page_table,
                           sinks,
                           o,
                           lse,
                           scores + static_cast<i64>(blockIdx.x) * capacity,
                           {k_block_stride, k_head_stride, k_token_stride},
                           {v_block_stride, v_head_stride, v_token_stride},
                           page_table_stride,
                           scale};
  const RowStrides q_strides = {q_sequence_stride, q_token_stride, q_head_stride};
  const RowStrides o_strides = {o_sequence_stride, o_token_stride, o_head_stride};
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const int head = static_cast<int>(row % q_heads), query = static_cast<int>(row / q_heads % kQueries),
              batch = static_cast<int>(row / q_heads / kQueries);
    const auto offset = [&](const RowStrides& strides) {
      return batch * strides.sequence + query * strides.token + head * strides.head;
    };
    const int length = max_of(0, min_of(lengths[batch], capacity));
    const int end = max_of(0, length - (kQueries - 1) + query);
    attend(tensors, {row, offset(q_strides), offset(o_strides), batch, head, head / (q_heads / kv_heads), end});
    __syncthreads();
  }
}
