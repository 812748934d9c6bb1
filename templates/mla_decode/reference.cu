// The reference of mla_decode: a block a row, softmax in two passes, of which each computes the logits anew. EXACT
// writes fp32; otherwise logits and probabilities are rounded to the element type, like an implementation that stores
// them between steps.
#include "templates/common/convert.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/types.cuh"

constexpr int kLatent = 512, kWidth = 576, kHeads = HEADS, kQueries = QUERIES, kPage = PAGE;
constexpr bool kNarrow = NARROW, kGroups = GROUPS, kChosen = CHOSEN;
constexpr int kWarps = 16, kLaneDims = kWidth / kWarpSize, kLaneLatent = kLatent / kWarpSize;

#if EXACT
using Output = float;
__device__ __forceinline__ float rounded(float value) { return value; }
__device__ __forceinline__ Output output(float value) { return value; }
#else
using Output = Element;
__device__ __forceinline__ float rounded(float value) { return round_through<Element>(value); }
__device__ __forceinline__ Output output(float value) { return Element::from_float(value); }
#endif

// Over the block; every thread gets the result.
template <typename Reduce>
__device__ float reduce_block(float* shared, float value, Reduce reduce) {
  __syncthreads();
  if (threadIdx.x % kWarpSize == 0) shared[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < kWarps; ++warp) value = reduce(value, shared[warp]);
  return value;
}

// Tokens' rows, by their places in the pool: page * kPage + place in the page.
struct Pool {
  const u8* kv;
  const float* scales;  // kGroups: of groups; otherwise one
  const Element* rope;
  i64 kv_page, kv_token, scales_page, scales_token, rope_page, rope_token;

  __device__ float value(int place, int column) const {
    const i64 page = place / kPage, token = place % kPage;
    if (kGroups && column >= kLatent) {
      return Element::to_float(rope[page * rope_page + token * rope_token + column - kLatent]);
    }
    const i64 at = page * kv_page + token * kv_token + column;
    if (!kNarrow) return Element::to_float(reinterpret_cast<const Element*>(kv)[at]);
    const float factor = kGroups ? scales[page * scales_page + token * scales_token + column / 128] : scales[0];
    return rounded(Fp16::to_float({static_cast<u16>(widen_e4m3x2(kv[at]))}) * factor);
  }
};

extern "C" __global__ void __launch_bounds__(kWarps* kWarpSize)
    mla_decode_reference(const Element* q, const u8* kv, const float* kv_scale, const float* group_scales,
                         const Element* rope, const i32* pages, const i32* indices, const i32* lengths, Output* o,
                         float* lse, i64 q_sequence, i64 q_token, i64 q_head, i64 kv_page, i64 kv_token,
                         i64 scales_page, i64 scales_token, i64 rope_page, i64 rope_token, i64 o_sequence, i64 o_token,
                         i64 o_head, i64 page_row, int capacity, float scale) {
  __shared__ float reduced[kWarps];
  __shared__ float sums[kWarps][kLatent];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int head = blockIdx.x % kHeads, query = blockIdx.x / kHeads % kQueries,
            sequence = blockIdx.x / (kHeads * kQueries);
  const int length = kChosen ? capacity : max_of(0, min_of(lengths[sequence], capacity)),
            end = kChosen ? length : length - (kQueries - 1) + query;
  // Lane l has the values l, l + 32, ... of a row.
  const Element* const queries = q + sequence * q_sequence + query * q_token + head * q_head + lane;
  float mine[kLaneDims];
  for (int i = 0; i < kLaneDims; ++i) mine[i] = Element::to_float(queries[i * kWarpSize]);
  const Pool pool = {
      kv, kGroups ? group_scales : kv_scale, rope, kv_page, kv_token, scales_page, scales_token, rope_page, rope_token};
  // Negative: there is no token.
  const auto place_of = [&](int token) {
    if (kChosen) return indices[(static_cast<i64>(sequence) * kQueries + query) * capacity + token];
    return pages[sequence * page_row + token / kPage] * kPage + token % kPage;
  };
  const auto logit = [&](int place) {
    float dot = 0;
    for (int i = 0; i < kLaneDims; ++i) dot = fmaf(mine[i], pool.value(place, lane + i * kWarpSize), dot);
    return rounded(rounded(sum_across<kWarpSize>(dot)) * scale);
  };
  float highest = minus_infinity();
  for (int token = warp; token < end; token += kWarps) {
    if (const int place = place_of(token); place >= 0) highest = fmaxf(highest, logit(place));
  }
  highest = reduce_block(reduced, highest, [](float a, float b) { return fmaxf(a, b); });
  float denominator = 0;
  for (int token = warp; token < end; token += kWarps) {
    if (const int place = place_of(token); place >= 0) denominator += expf(logit(place) - highest);
  }
  denominator = reduce_block(reduced, denominator, [](float a, float b) { return a + b; });

  float total[kLaneLatent] = {};
  for (int token = warp; token < end; token += kWarps) {
    const int place = place_of(token);
    if (place < 0) continue;
    const float p = rounded(expf(logit(place) - highest) / denominator);
    for (int i = 0; i < kLaneLatent; ++i) total[i] = fmaf(p, pool.value(place, lane + i * kWarpSize), total[i]);
  }
  for (int i = 0; i < kLaneLatent; ++i) sums[warp][lane + i * kWarpSize] = total[i];
  __syncthreads();
  Output* const to = o + sequence * o_sequence + query * o_token + head * o_head;
  for (int column = threadIdx.x; column < kLatent; column += kWarps * kWarpSize) {
    float sum = 0;
    for (int other = 0; other < kWarps; ++other) sum += sums[other][column];
    to[column] = output(sum);
  }
  if (LSE && threadIdx.x == 0) lse[blockIdx.x] = denominator == 0 ? minus_infinity() : highest + logf(denominator);
}
