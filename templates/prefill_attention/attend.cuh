// The math of one warpgroup: its 64 rows against one tile of K and V after the other.
//
// S = Q K^T and O += P V by wgmma; softmax runs on powers of two and follows the running maximum. Lane l of warp w
// holds, of every 16x8 piece of S and O, row 16w + l/4 (and 8 more) at columns 2(l%4) and the next. Products that run
// beside softmax are after FlashAttention-3 (Shah et al. 2024); the maximum that may lag and exponentials by
// polynomial are after FlashAttention-4.
#pragma once

#include "templates/common/reduce.cuh"
#include "templates/common/softcap.cuh"
#include "templates/common/unrolled.cuh"
#include "templates/prefill_attention/work.cuh"

#if BODY_WGMMA
#include "templates/common/wgmma.cuh"
#include "templates/prefill_attention/pipeline.cuh"
#endif

// 2^x with a relative error below 8e-5, by the units that multiply and add; x at most 100.
__device__ __forceinline__ float exp2_polynomial(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, in the lowest bits
  const float rounded = fmaxf(x, -126.0f) + kRound;
  const float rest = fmaxf(x, -126.0f) - (rounded - kRound);
  const float value = fmaf(fmaf(fmaf(0.05517167f, rest, 0.24261113f), rest, 0.69326099f), rest, 0.99992807f);
  return __int_as_float(__float_as_int(value) + (__float_as_int(rounded) << 23));
}

class Attention {
  static constexpr int kSteps = kTile * kElementBytes / 32;  // with a tile of V, of 32 bytes of P each

 public:
  __device__ __forceinline__ explicit Attention(int warpgroup) : first_row_(64 * warpgroup) {}

  // `logit_factor` as KvScaling has it.
  __device__ __forceinline__ void begin(const Work& work, float logit_factor) {
    scale_log2_ = kSoftcap > 0 ? kSoftcap * kLog2E : fabsf(logit_factor);
    logit_factor_ = logit_factor;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum_[half] = lowest();
      sum_[half] = 0;
      const int token = token_of(work, half);
      begin_[half] = work.begin(token);
      end_[half] = work.end(token);
    }
    set_zero(output_);
    const int first = work.first_token + first_row_ / kHeadsInRows;
    all_begin_ = work.begin(first + 64 / kHeadsInRows - 1);
    all_end_ = work.end(first);
  }

#if BODY_WGMMA
  // Whether no row of the warpgroup sees more of the tile than its first kFewTokens.
  __device__ __forceinline__ bool sees_few(const Work& work, int tile) const {
    const int last = work.first_token + (first_row_ + 63) / kHeadsInRows;
    return work.end(last) <= tile * kTile + kFewTokens;
  }

  // Issues S = Q K^T as one group; of the first kCount tokens alone, what S holds for the others has to be masked.
  template <int kCount>
  __device__ __forceinline__ void score(u32 queries, u32 keys) {
    constexpr int kOfChunk = kRowBytes / 32;
    const u64 q = WgmmaMatrix::rows<kRowBytes>(queries + first_row_ * kRowBytes),
              k = WgmmaMatrix::rows<kRowBytes>(keys);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < ceil_div(kHeadDim * kElementBytes, 32); ++step) {
      const int chunk = step / kOfChunk, within = step % kOfChunk * 32;
      wgmma<Math, kCount, false, false>(scores_, WgmmaMatrix::moved(q, chunk * kQueryChunkBytes + within),
                                        WgmmaMatrix::moved(k, chunk * kTileChunkBytes + within), step > 0);
    }
    wgmma_commit();
  }

  // Issues O += P V as one group.
  __device__ __forceinline__ void accumulate(u32 values) {
    const u64 v = kMultipliesBytes ? WgmmaMatrix::rows(values) : WgmmaMatrix::columns(values, kTileChunkBytes);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int moved = kMultipliesBytes ? step / 4 * kValueChunkBytes + step % 4 * 32 : step * 2048;
      wgmma_registers<Math, kHeadDim, !kMultipliesBytes>(output_, p_[step], WgmmaMatrix::moved(v, moved));
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void hold_scores() { wgmma_hold<kTile / 8>(scores_); }
  __device__ __forceinline__ void hold_output() { wgmma_hold<kHeadDim / 8>(output_); }
#endif

  // S becomes P, as fp32; what the rows do not see counts for nothing. O has to be rescaled after it.
  __device__ __forceinline__ void softmax(int tile) {
    const int first = tile * kTile;
    if constexpr (kSoftcap > 0) {
      const float factor = logit_factor_ * (2.0f / kSoftcap);
      each_score([&](float score) { return tanh_half_log2(score * factor); });
    } else if (kNarrow && logit_factor_ < 0) {
      each_score([](float score) { return -score; });
    }
    if (first + kTile > all_end_ || (kWindow > 0 && first < all_begin_)) mask(first);
    float highest[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) highest[half] = highest_score(half) * scale_log2_;
    raise_maximum(highest);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float shift = kShift == 0 ? -maximum_[half] : kShift - maximum_[half];
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores_[j][2 * half + i];
          const float power = fmaf(score, scale_log2_, shift);
          score = (2 * j + i) % 8 < kPolynomials ? exp2_polynomial(power) : exp2_fast(power);
          sum += score;
        }
      }
      sum_[half] += sum;
    }
  }

  // The products that add to O must have ended.
  __device__ __forceinline__ void rescale() {
    if (kLag > 0 && !raised_) return;
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) output_[j][i] *= factor_[i / 2];
    }
  }

  // The products that read P must have ended. Of e4m3, an instruction's 32 tokens are 2t, 2t + 1, 2t + 8 and 2t + 9 for
  // every t below 4, and 16 further: those that lane t of a row has, in the order that transpose.cuh gives V.
  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) p_[step][i] = packed<Math>(step, i % 2 * 2, i / 2);
    }
  }

  // The rows' denominators, and the powers of two by which they are off; a sink may join here.
  __device__ __forceinline__ void finish(int half, bool sink_joins, const float* sinks, int head) {
    sum_[half] = sum_across<4>(sum_[half]);
    if (maximum_[half] == lowest() && sum_[half] < 1) sum_[half] = 0;  // the row sees nothing, and no NaN
    if (kSinks && sink_joins) {
      const float sink = sinks[head] * kLog2E;
      const float top = fmaxf(maximum_[half], sink), factor = exp2_fast(maximum_[half] - top);
      sum_[half] = sum_[half] * factor + exp2_fast(sink - top + kShift);
      factor_[half] = factor;
      maximum_[half] = top;
    } else {
      factor_[half] = 1;
    }
    factor_[half] = sum_[half] == 0 ? 0 : factor_[half] / sum_[half];  // NaN stays NaN
  }

  // Multiplies the row's outputs by one more factor, after finish.
  __device__ __forceinline__ void scale_output(int half, float factor) { factor_[half] *= factor; }

  // Base-2 logarithm of a row's denominator, after finish.
  __device__ __forceinline__ float lse_log2(int half) const {
    return sum_[half] == 0 ? minus_infinity() : maximum_[half] + log2_fast(sum_[half]) - kShift;
  }

  // Natural logarithm of a row's denominator, after finish.
  __device__ __forceinline__ float lse(int half) const { return lse_log2(half) * kLn2; }

  // Columns 8j + 2(l%4) and the next of a row, after finish.
  __device__ __forceinline__ u32 output_pair(int half, int j) const {
    return Element::pack(output_[j][2 * half] * factor_[half], output_[j][2 * half + 1] * factor_[half]);
  }

  // The same two columns as fp32, after finish.
  __device__ __forceinline__ float2 output_values(int half, int j) const {
    return make_float2(output_[j][2 * half] * factor_[half], output_[j][2 * half + 1] * factor_[half]);
  }

  // The block's row that this lane has in `half`.
  __device__ __forceinline__ int row(int half) const {
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize % 4;
    return first_row_ + warp * 16 + half * 8 + lane / 4;
  }

  __device__ __forceinline__ int token_of(const Work& work, int half) const {
    return work.first_token + row(half) / kHeadsInRows;
  }

 private:
  // S becomes change(S).
  template <typename Change>
  __device__ __forceinline__ void each_score(const Change& change) {
    each_value(scores_, [&](float& score) { score = change(score); });
  }

  // Register 2 * `group` + `place` / 2 of a step's fragment of P: elements `place` and the next of its scores.
  template <typename Type>
  __device__ __forceinline__ u32 packed(int step, int place, int group) const {
    if constexpr (kMultipliesBytes) {
      const float(&low)[4] = scores_[4 * step + 2 * group], (&high)[4] = scores_[4 * step + 2 * group + 1];
      return narrow_e4m3x2(low[place], low[place + 1]) | narrow_e4m3x2(high[place], high[place + 1]) << 16;
    } else {
      const float(&from)[4] = scores_[2 * step + group];
      return Type::pack(from[place], from[place + 1]);
    }
  }

  __device__ __forceinline__ float highest_score(int half) const {
    float value = fmaxf(scores_[0][2 * half], scores_[0][2 * half + 1]);
#pragma unroll
    for (int j = 1; j < kTile / 8; ++j) value = fmaxf(value, fmaxf(scores_[j][2 * half], scores_[j][2 * half + 1]));
    return max_across<4>(value);
  }

  __device__ __forceinline__ void mask(int first) {
    const int offset = first + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int end = end_[half] - offset, begin = begin_[half] - offset;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool seen = 8 * j + i < end && (kWindow == 0 || 8 * j + i >= begin);
          if (!seen) scores_[j][2 * half + i] = minus_infinity();
        }
      }
    }
  }

  // Moves the maximum up, for all rows of the warp once one lags too far, and what was summed with it.
  __device__ __forceinline__ void raise_maximum(const float (&highest)[2]) {
    if constexpr (kLag > 0) {
      raised_ = __any_sync(kWholeWarp, highest[0] > maximum_[0] + kLag || highest[1] > maximum_[1] + kLag);
      if (!raised_) return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float raised = fmaxf(maximum_[half], highest[half]);
      factor_[half] = exp2_fast(maximum_[half] - raised);
      maximum_[half] = raised;
      sum_[half] *= factor_[half];
    }
  }

  float scale_log2_;         // of the softmax, not negative
  float logit_factor_;       // negative as a negative scale of e4m3 keys makes it
  int begin_[2], end_[2];    // what each row sees
  int all_begin_, all_end_;  // what all of the warpgroup's rows see
  bool raised_ = true;
  float factor_[2];
  float maximum_[2];  // in units of log2, scale included
  float sum_[2];      // this lane's share

 protected:
  int first_row_;
  float scores_[kTile / 8][4];
  float output_[kHeadDim / 8][4];
  u32 p_[kSteps][4];
};
