// Math `vector` (sm_80+): fp32 multiply-adds instead of matrix instructions, for one or two packed rows,
// which would leave most of a matrix tile empty. A lane has whole tokens of K (or half of one), and whole
// 16-byte units of V's rows.
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/reduce.cuh"
#include "templates/common/widen.cuh"
#include "templates/decode_attention/arguments.cuh"

static_assert(kRows <= 2 && kQueryBytes >= kRows * kHeadDim * 4, "the staged rows are fp32");

constexpr bool kQueryAsync = false;

// By `threads` threads; the caller synchronizes.
__device__ __forceinline__ void stage_query(u8* shared, const Queries& queries, const Work& work, int thread,
                                            int threads) {
  float* staged = reinterpret_cast<float*>(shared + kQueryOffset);
  for (int i = thread; i < kRows * kHeadDim; i += threads) {
    const int row = i / kHeadDim;
    const Element* source = queries.q + work.row_offset(queries.strides, row);
    staged[i] = row < work.rows ? Element::to_float(source[i % kHeadDim]) : 0;
  }
}

// Where a lane reads K and V.
struct LaneOffsets {
  static constexpr int kLanesPerToken = kWorkerTokens < kWarpSize ? 2 : 1;
  static constexpr int kTokensPerRead = kWarpSize / kUnitsPerRow;  // rows of V that a read of the warp covers

  int token;       // of K, the first of the lane's
  int half;        // the half of its units that the lane has
  int unit;        // of V
  int unit_token;  // of V, in every kTokensPerRead

  __device__ __forceinline__ LaneOffsets() {
    const int lane = threadIdx.x % kWarpSize;
    token = kLanesPerToken == 1 ? lane : lane % kWorkerTokens;
    half = kLanesPerToken == 1 ? 0 : lane / kWorkerTokens;
    unit = lane % kUnitsPerRow;
    unit_token = lane / kUnitsPerRow;
  }
};

class Query {
 public:
  __device__ __forceinline__ Query(u32 shared, const LaneOffsets&) : address_(shared + kQueryOffset) {}

  // A row's elements that meet unit `unit` of K.
  __device__ __forceinline__ void unit(float (&elements)[kUnitElements], int row, int unit) const {
    const u32 from = address_ + (row * kHeadDim + unit * kUnitElements) * 4;
#pragma unroll
    for (int i = 0; i < kUnitElements; i += 4) {
      const uint4 bits = load_shared(from + 4 * i);
      elements[i] = __uint_as_float(bits.x);
      elements[i + 1] = __uint_as_float(bits.y);
      elements[i + 2] = __uint_as_float(bits.z);
      elements[i + 3] = __uint_as_float(bits.w);
    }
  }

 private:
  u32 address_;
};

class Attention {
 public:
  __device__ __forceinline__ Attention() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      maximum_[row] = lowest();
      sum_[row] = 0;
#pragma unroll
      for (int i = 0; i < kUnitElements; ++i) output_[row][i] = 0;
    }
  }

  __device__ __forceinline__ void score(u32 k, const Query& query, const LaneOffsets& lanes) {
    constexpr int kUnits = kUnitsPerRow / LaneOffsets::kLanesPerToken;
    float sums[kLaneTokens][kRows][2] = {};
#pragma unroll(kUnroll)
    for (int i = 0; i < kUnits; ++i) {
      const int unit = lanes.half * kUnits + i;
      float q[kRows][kUnitElements];
#pragma unroll
      for (int row = 0; row < kRows; ++row) query.unit(q[row], row, unit);
#pragma unroll
      for (int token = 0; token < kLaneTokens; ++token) {
        float elements[kUnitElements];
        widen_unit(elements, k, lanes.token + token * kWarpSize, unit);
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
#pragma unroll
          for (int j = 0; j < kUnitElements; ++j) {
            sums[token][row][j % 2] = fmaf(q[row][j], elements[j], sums[token][row][j % 2]);
          }
        }
      }
    }
#pragma unroll
    for (int token = 0; token < kLaneTokens; ++token) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        float sum = sums[token][row][0] + sums[token][row][1];
        if constexpr (LaneOffsets::kLanesPerToken == 2) sum += __shfl_xor_sync(kWholeWarp, sum, kWorkerTokens);
        scores_[token][row] = sum;
      }
    }
  }

  // S becomes change(S).
  template <typename Change>
  __device__ __forceinline__ void each_score(const Change& change) {
#pragma unroll
    for (int token = 0; token < kLaneTokens; ++token) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) scores_[token][row] = change(scores_[token][row]);
    }
  }

  __device__ __forceinline__ void softmax_tile(const VisibleRange& visible, int first_row, float scale_log2) {
    const int lane = threadIdx.x % kWarpSize;
    if (visible.partial()) mask(visible, first_row);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float highest = minus_infinity();
#pragma unroll
      for (int token = 0; token < kLaneTokens; ++token) highest = fmaxf(highest, scores_[token][row]);
      highest *= scale_log2;
      if (__any_sync(kWholeWarp, highest > maximum_[row] + kLag)) raise_maximum(row, highest);
#pragma unroll
      for (int token = 0; token < kLaneTokens; ++token) {
        const float p = exp2_fast(fmaf(scores_[token][row], scale_log2, -maximum_[row]));
        scores_[token][row] = p;
        if (LaneOffsets::kLanesPerToken == 1 || lane < kWorkerTokens) sum_[row] += p;
      }
    }
  }

  __device__ __forceinline__ void accumulate(u32 v, const LaneOffsets& lanes) {
    constexpr int kStep = LaneOffsets::kTokensPerRead;
#pragma unroll
    for (int block = 0; block < kLaneTokens; ++block) {
#pragma unroll(kUnroll)
      for (int first = 0; first < min_of(kWarpSize, kWorkerTokens); first += kStep) {
        const int token = first + lanes.unit_token;
        float elements[kUnitElements];
        widen_unit(elements, v, block * kWarpSize + token, lanes.unit);
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const float p = __shfl_sync(kWholeWarp, scores_[block][row], token);
#pragma unroll
          for (int i = 0; i < kUnitElements; ++i) output_[row][i] = fmaf(p, elements[i], output_[row][i]);
        }
      }
    }
  }

  __device__ __forceinline__ void store_partial(float* rows, float* maxima, float* sums) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float sum = sum_across<kWarpSize>(sum_[row]);
      if (lane == 0) {
        maxima[row] = maximum_[row];
        sums[row] = sum;
      }
      float total[kUnitElements];
#pragma unroll
      for (int i = 0; i < kUnitElements; ++i) {
        total[i] = output_[row][i];
#pragma unroll
        for (int distance = kUnitsPerRow; distance < kWarpSize; distance *= 2) {
          total[i] += __shfl_xor_sync(kWholeWarp, total[i], distance);
        }
      }
      if (lane >= kUnitsPerRow) continue;
      float4* to = reinterpret_cast<float4*>(rows + row * kMergeStride + lane * kUnitElements);
#pragma unroll
      for (int i = 0; i < kUnitElements / 4; ++i) {
        to[i] = make_float4(total[4 * i], total[4 * i + 1], total[4 * i + 2], total[4 * i + 3]);
      }
    }
  }

 private:
  static constexpr int kLaneTokens = max_of(1, kWorkerTokens / kWarpSize);  // of K that a lane has
  static constexpr int kUnroll = 8;

  static __device__ __forceinline__ void widen_unit(float (&elements)[kUnitElements], u32 tile, int token, int unit) {
    const u32 address = tile + token_offset(token) + unit / 8 * kChunkBytes + ((unit % 8 ^ token % 8) << 4);
    const uint4 bits = load_shared(address);
    const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      if constexpr (kNarrow) {
        const uint2 wide = widen_e4m3x4(words[word]);
        Fp16::unpack(wide.x, elements[4 * word], elements[4 * word + 1]);
        Fp16::unpack(wide.y, elements[4 * word + 2], elements[4 * word + 3]);
      } else {
        Math::unpack(words[word], elements[2 * word], elements[2 * word + 1]);
      }
    }
  }

  __device__ __forceinline__ void mask(const VisibleRange& visible, int first_row) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int query = kQueries == 1 ? 0 : (first_row + row) / kGroup;
#pragma unroll
      for (int block = 0; block < kLaneTokens; ++block) {
        const int token = lane % min_of(kWarpSize, kWorkerTokens) + block * kWarpSize - query;
        const bool seen = token < visible.end && (kWindow == 0 || token >= visible.first);
        if (!seen) scores_[block][row] = minus_infinity();
      }
    }
  }

  // Moves the running maximum up to the lanes' `highest` and rescales what was summed so far.
  __device__ __forceinline__ void raise_maximum(int row, float highest) {
    const float raised = fmaxf(maximum_[row], max_across<kWarpSize>(highest));
    const float factor = exp2_fast(maximum_[row] - raised);
    maximum_[row] = raised;
    sum_[row] *= factor;
#pragma unroll
    for (int i = 0; i < kUnitElements; ++i) output_[row][i] *= factor;
  }

  float scores_[kLaneTokens][kRows];
  float output_[kRows][kUnitElements];  // of the tokens that the lane reads
  float maximum_[kRows];                // in units of log2, scale included; the same in all lanes
  float sum_[kRows];                    // this lane's share
};
