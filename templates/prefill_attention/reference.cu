// The reference of prefill_attention: 64 queries of one head against 64 tokens at a time, in fp32 through shared
// memory, with a running maximum. As `exact` it writes fp32; as `baseline` it rounds scores and probabilities to the
// element type, as a plain implementation in that type does, and writes it. Of e4m3, `exact` multiplies scores and
// outputs by the scales; `baseline` dequantizes keys and values to the element type.
#include "templates/common/attention_reference.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/types.cuh"

#if !defined(DTYPE) || !defined(KV_DTYPE) || !defined(KV_HEAD_SCALES) || !defined(HEAD_DIM) || !defined(GROUP) || \
    !defined(PAGE) || !defined(CAUSAL) || !defined(WINDOW) || !defined(SINKS) || !defined(LSE) || !defined(BASELINE)
#error the reference is compiled through a plan, which defines every macro tested here
#endif

using KvElement = KV_DTYPE;  // Element, or E4m3
#ifdef Q_DTYPE
using QueryElement = Q_DTYPE;  // E4m3
#define QUERY_SCALE_PARAMETER const float *q_scale,
#else
using QueryElement = Element;
#define QUERY_SCALE_PARAMETER
constexpr const float* q_scale = nullptr;
#endif

constexpr int kHeadDim = HEAD_DIM;
constexpr int kPage = PAGE;
constexpr int kPageTokens = kPage == 0 ? 1 : kPage;
constexpr int kWindow = WINDOW;
constexpr bool kNarrow = sizeof(KvElement) == 1;
constexpr bool kNarrowQueries = sizeof(QueryElement) == 1;
constexpr int kRows = 64;
constexpr int kTokens = 64;
constexpr int kThreads = 256;
constexpr int kLanes = 16;                            // threads that share a row
constexpr int kMine = 4;                              // rows, and tokens of a tile, of a thread
constexpr int kWords = kHeadDim / 2;                  // of a row, each of two elements
constexpr int kRowWords = kWords + 1;                 // odd, so that 16 rows lie in 16 banks
constexpr int kMineWords = ceil_div(kWords, kLanes);  // of an output row; the last lanes may have one less
constexpr int kWeightRow = kTokens + 1;

// A sequence: its queries begin at q_begin, its KV at kv_begin or in the pages of a row of the table.
struct Sequence {
  int q_begin;
  int new_tokens;
  int kv_begin;
  int tokens;
  const i32* pages;

  // The tokens [begin, end) that a query sees.
  __device__ __forceinline__ int end(int row) const {
    return CAUSAL ? max_of(0, tokens - new_tokens + row + 1) : tokens;
  }
  __device__ __forceinline__ int begin(int row) const { return kWindow == 0 ? 0 : max_of(0, end(row) - kWindow); }

  __device__ __forceinline__ i64 offset(const KvStrides& strides, int head, int token) const {
    const i64 block = kPage > 0 ? pages[token / kPageTokens] : 0;
    const int within = kPage > 0 ? token % kPageTokens : kv_begin + token;
    return block * strides.block + head * strides.head + within * strides.token;
  }
};

// A probability as it is multiplied: of e4m3 queries 2^8 of it, which is at most 1, in e4m3.
__device__ __forceinline__ float rounded_weight(float weight) {
  if constexpr (BASELINE && kNarrowQueries) {
    float low, high;
    Fp16::unpack(widen_e4m3x2(narrow_e4m3x2(weight * 256, 0)), low, high);
    return low / 256;
  }
  return rounded(weight);
}

// Two elements of queries, keys or values as Element, as they are multiplied.
__device__ __forceinline__ u32 pair_of(const Element* row, int word, float) {
  return reinterpret_cast<const u32*>(row)[word];
}
__device__ __forceinline__ u32 pair_of(const E4m3* row, int word, float scale) {
  float low, high;
  Fp16::unpack(widen_e4m3x2(reinterpret_cast<const u16*>(row)[word]), low, high);
  return Element::pack(low * scale, high * scale);
}

// The scale of queries, keys or values, by which their elements are multiplied or, in `exact`, what comes of them.
struct Dequantization {
  __device__ __forceinline__ Dequantization(bool narrow, const float* scales, int kv_head) {
    const float scale = narrow ? scales[KV_HEAD_SCALES ? kv_head : 0] : 1.0f;
    (BASELINE ? of_elements : of_results) = scale;
  }
  float of_elements = 1, of_results = 1;
};

// Rows of 64 tokens of keys or values, zeros outside of [begin, end).
__device__ void load_tile(u32* tile, const KvElement* source, float scale, const KvStrides& strides,
                          const Sequence& sequence, int head, int first, int begin, int end) {
  for (int i = threadIdx.x; i < kTokens * kWords; i += kThreads) {
    const int token = first + i / kWords;
    u32 pair = 0;
    if (token >= begin && token < end)
      pair = pair_of(source + sequence.offset(strides, head, token), i % kWords, scale);
    tile[i / kWords * kRowWords + i % kWords] = pair;
  }
}

// What a thread has of 4 rows: rows 4 * (thread / 16) .., words thread % 16, + 16, ... of each.
struct Rows {
  float highest[kMine];
  float total[kMine];
  float o[kMine][kMineWords][2];
};

__device__ __forceinline__ void multiply_keys(const u32* queries, const u32* keys, float (&scores)[kMine][kMine]) {
  const int lane = threadIdx.x % kLanes, row = threadIdx.x / kLanes * kMine;
#pragma unroll 4
  for (int word = 0; word < kWords; ++word) {
    float q[kMine][2], k[kMine][2];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      Element::unpack(queries[(row + i) * kRowWords + word], q[i][0], q[i][1]);
      Element::unpack(keys[(lane + kLanes * i) * kRowWords + word], k[i][0], k[i][1]);
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i)
#pragma unroll
      for (int j = 0; j < kMine; ++j) scores[i][j] = fmaf(q[i][1], k[j][1], fmaf(q[i][0], k[j][0], scores[i][j]));
  }
}

// Scores of this thread's rows and tokens to weights in shared memory, with all that hangs on the maximum.
__device__ __forceinline__ void softmax(Rows& rows, const float (&scores)[kMine][kMine], float* weights,
                                        const Sequence& sequence, int first_row, int first_token, float scale) {
  const int lane = threadIdx.x % kLanes, row = threadIdx.x / kLanes * kMine;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int begin = sequence.begin(first_row + row + i), end = sequence.end(first_row + row + i);
    float values[kMine], highest = rows.highest[i];
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int token = first_token + lane + kLanes * j;
      values[j] = token >= begin && token < end ? score_of(scores[i][j], scale) : minus_infinity();
      highest = fmaxf(highest, values[j]);
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      highest = fmaxf(highest, __shfl_xor_sync(kWholeWarp, highest, distance));
    const float base = highest == minus_infinity() ? 0.0f : highest;  // nothing seen so far
    const float factor = expf(rows.highest[i] - base);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const float weight = expf(values[j] - base);
      sum += weight;
      weights[(row + i) * kWeightRow + lane + kLanes * j] = rounded_weight(weight);
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, distance);
    rows.total[i] = rows.total[i] * factor + sum;
    rows.highest[i] = highest;
#pragma unroll
    for (int w = 0; w < kMineWords; ++w) rows.o[i][w][0] *= factor, rows.o[i][w][1] *= factor;
  }
}

__device__ __forceinline__ void multiply_values(Rows& rows, const float* weights, const u32* values) {
  const int lane = threadIdx.x % kLanes, row = threadIdx.x / kLanes * kMine;
#pragma unroll 2
  for (int token = 0; token < kTokens; ++token) {
    float weight[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) weight[i] = weights[(row + i) * kWeightRow + token];
#pragma unroll
    for (int w = 0; w < kMineWords; ++w) {
      if (kWords % kLanes != 0 && lane + kLanes * w >= kWords) continue;
      float low, high;
      Element::unpack(values[token * kRowWords + lane + kLanes * w], low, high);
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        rows.o[i][w][0] = fmaf(weight[i], low, rows.o[i][w][0]);
        rows.o[i][w][1] = fmaf(weight[i], high, rows.o[i][w][1]);
      }
    }
  }
}

struct Outputs {
  Output* o;
  float* lse;
  i64 token_stride;
  i64 head_stride;
};

__device__ __forceinline__ void store(const Rows& rows, const Outputs& to, const Sequence& sequence, int first_row,
                                      int head, int q_heads, float sink, float value_scale) {
  const int lane = threadIdx.x % kLanes;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = first_row + static_cast<int>(threadIdx.x) / kLanes * kMine + i;
    if (row >= sequence.new_tokens) continue;
    const float highest = fmaxf(rows.highest[i], sink);
    const bool empty = highest == minus_infinity();
    const float factor = empty ? 0.0f : expf(rows.highest[i] - highest);
    const float total = empty ? 1.0f : rows.total[i] * factor + expf(sink - highest);
    const i64 token = sequence.q_begin + row;
    Output* const o = to.o + token * to.token_stride + head * to.head_stride;
#pragma unroll
    for (int w = 0; w < kMineWords; ++w) {
      if (kWords % kLanes != 0 && lane + kLanes * w >= kWords) continue;
      o[2 * (lane + kLanes * w)] = output(rows.o[i][w][0] * value_scale * factor / total);
      o[2 * (lane + kLanes * w) + 1] = output(rows.o[i][w][1] * value_scale * factor / total);
    }
    if (LSE && lane == 0) to.lse[token * q_heads + head] = empty ? highest : highest + logf(total);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    prefill_attention_reference(const QueryElement* q, const KvElement* k, const KvElement* v, const i32* q_offsets,
                                const i32* kv_offsets, const i32* kv_lengths, const i32* page_table, const float* sinks,
                                Output* o, float* lse, i64 page_table_stride, i64 o_token_stride, i64 o_head_stride,
                                i64 q_token_stride, i64 q_head_stride, i64 k_block_stride, i64 k_head_stride,
                                i64 k_token_stride, i64 v_block_stride, i64 v_head_stride, i64 v_token_stride,
                                int q_tokens, int capacity, float scale, QUERY_SCALE_PARAMETER const float* k_scale,
                                const float* v_scale) {
  u32* const queries = reinterpret_cast<u32*>(dynamic_shared());
  u32* const tile = queries + kRows * kRowWords;
  float* const weights = reinterpret_cast<float*>(tile + kTokens * kRowWords);
  const KvStrides k_strides = {k_block_stride, k_head_stride, k_token_stride};
  const KvStrides v_strides = {v_block_stride, v_head_stride, v_token_stride};

  const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / GROUP, first_row = blockIdx.x * kRows;
  Sequence sequence = {};
  sequence.q_begin = clamp_length(q_offsets[batch], q_tokens);
  sequence.new_tokens = max_of(0, clamp_length(q_offsets[batch + 1], q_tokens) - sequence.q_begin);
  if (first_row >= sequence.new_tokens) return;
  if (kPage > 0) {
    sequence.tokens = clamp_length(kv_lengths[batch], capacity);
    sequence.pages = page_table + batch * page_table_stride;
  } else {
    sequence.kv_begin = clamp_length(kv_offsets[batch], capacity);
    sequence.tokens = max_of(0, clamp_length(kv_offsets[batch + 1], capacity) - sequence.kv_begin);
  }

  const Dequantization asked(kNarrowQueries, q_scale, kv_head), keys(kNarrow, k_scale, kv_head),
      values(kNarrow, v_scale, kv_head);
  const QueryElement* const first_query = q + sequence.q_begin * q_token_stride + head * q_head_stride;
  const int rows_here = min_of(kRows, sequence.new_tokens - first_row);
  for (int i = threadIdx.x; i < kRows * kWords; i += kThreads) {
    const int row = i / kWords;
    u32 pair = 0;
    if (row < rows_here)
      pair = pair_of(first_query + (first_row + row) * q_token_stride, i % kWords, asked.of_elements);
    queries[row * kRowWords + i % kWords] = pair;
  }
  Rows rows = {};
#pragma unroll
  for (int i = 0; i < kMine; ++i) rows.highest[i] = minus_infinity();

  const int begin = sequence.begin(first_row), end = sequence.end(first_row + rows_here - 1);
  for (int first = begin / kTokens * kTokens; first < end; first += kTokens) {
    float scores[kMine][kMine] = {};
    __syncthreads();
    load_tile(tile, k, keys.of_elements, k_strides, sequence, kv_head, first, begin, end);
    __syncthreads();
    multiply_keys(queries, tile, scores);
    softmax(rows, scores, weights, sequence, first_row, first, scale * asked.of_results * keys.of_results);
    __syncthreads();
    load_tile(tile, v, values.of_elements, v_strides, sequence, kv_head, first, begin, end);
    __syncthreads();
    multiply_values(rows, weights, tile);
  }
  store(rows, {o, lse, o_token_stride, o_head_stride}, sequence, first_row, head, static_cast<int>(gridDim.y),
        SINKS ? sinks[head] : minus_infinity(), values.of_results);
}
