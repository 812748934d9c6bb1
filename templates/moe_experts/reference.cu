// The plain version of moe_experts: a thread an element, sums in fp32. The baseline rounds what a plain implementation
// in the elements' type writes between its steps; with e4m3, also `between`, in groups as those of x.
//
// Macros: those of shape.cuh; EXACT (1: nothing is rounded, the output is f32).
#include "templates/common/mxfp4.cuh"
#include "templates/common/quantize.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_experts/shape.cuh"

#if EXACT
using Out = float;
#else
using Out = Element;
#endif
#if HAS_DOWN
using UpOut = float;  // scratch
#else
using UpOut = Out;
#endif
#if HAS_UP
using DownIn = float;
#else
using DownIn = Operand;
#endif

namespace {

__device__ void write(float* out, float sum) { *out = sum; }
__device__ void write(Element* out, float sum) { *out = Element::from_float(sum); }

__device__ float rounded(float value) { return EXACT ? value : round_through<Element>(value); }

// The expert whose segment holds the place, which belongs to a slot.
__device__ int expert_of(const int* offsets, int place) {
  int expert = 0;
  for (int step = 512; step > 0; step /= 2) {
    if (expert + step < kExperts && offsets[expert + step] <= place) expert += step;
  }
  return expert;
}

// Whether a place has a row: those of padding have one if it may be read.
__device__ bool has_row(const int* sorted, const int* offsets, int place, int tokens) {
  return kOfPlaces || kToPlaces ? place < offsets[kExperts] : token_of(sorted[place], tokens) >= 0;
}

__device__ void widen(const Element* from, float (&values)[8]) {
  const auto vector = load_vector<16>(from);
  for (int w = 0; w < 4; ++w) Element::unpack(vector.words[w], values[2 * w], values[2 * w + 1]);
}

__device__ void widen(const E4m3* from, float (&values)[8]) {
  const auto vector = load_vector<8>(from);
  for (int w = 0; w < 4; ++w)
    Fp16::unpack(widen_e4m3x2(vector.words[w / 2] >> w % 2 * 16), values[2 * w], values[2 * w + 1]);
}

// Weights of a product with so many matrices (gate and up, or one), columns and values of K.
template <int kMatrices, int kWidth, int kDepth>
struct Weights {
  const void* values;
  i64 row, expert;
  const void* scales;
  const Element* biases;

  // 8 of K from `k` on, times their scale.
  __device__ void load(int of_expert, int matrix, int column, int k, float (&loaded)[8]) const {
    if constexpr (kPacked) {
      for (int i = 0; i < 8; ++i) loaded[i] = packed(of_expert, matrix, column, k + i);
    } else if constexpr (kNMajor) {
      const int index = kBiased ? kMatrices * column + matrix : matrix * kWidth + column;
      const Element* const own = static_cast<const Element*>(values) + of_expert * expert + index;
      for (int i = 0; i < 8; ++i) loaded[i] = Element::to_float(own[(k + i) * row]);
    } else {
      const int index = kBiased ? kMatrices * column + matrix : matrix * kWidth + column;
      widen(static_cast<const Operand*>(values) + of_expert * expert + index * row + k, loaded);
      if constexpr (kNarrow) {
        const i64 block = (i64(of_expert) * kMatrices * kWidth + index) / kScaleGroup;
        const float scale = static_cast<const float*>(scales)[block * (kDepth / kScaleGroup) + k / kScaleGroup];
        for (int i = 0; i < 8; ++i) loaded[i] *= scale;
      }
    }
  }

  __device__ float bias(int of_expert, int matrix, int column) const {
    return kBiased ? Element::to_float(biases[(i64(of_expert) * kWidth + column) * kMatrices + matrix]) : 0.0f;
  }

 private:
  // One value, as common/mxfp4.cuh has them.
  __device__ float packed(int of_expert, int matrix, int column, int k) const {
    constexpr int kBits[4][4] = {{15, 8, 7, 6}, {18, 11, 10, 9}, {21, 14, 13, 12}, {3, 1, 0, 4}};
    constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    constexpr int kStrips = kMatrices * kWidth / kPackedRows, kBlocks = ceil_div(kDepth, kPackedDepth);
    const int strip = kMatrices * column / kPackedRows;
    const int half = kMatrices == 2 ? matrix : column / 8 % 2, own = column % 8;  // of a block's rows
    const i64 block = (i64(of_expert) * kStrips + strip) * kBlocks + k / kPackedDepth;
    const int lane = 4 * own + k % 8 / 2, pair = half + k / 8 % 2 * 2;
    const u32 word =
        static_cast<const u32*>(values)[(block * kPackedValueBytes + 16 * lane) / 4 + k % kPackedDepth / 16];
    int code = 0;
    for (int i = 0; i < 4; ++i) code = 2 * code + (word >> (kBits[pair][i] + k % 2 * 16) % 32 & 1);
    const int exponent =
        static_cast<const u8*>(scales)[block * kPackedScaleBytes + 4 * own + k % kPackedDepth / 32 * 2 + half];
    const float magnitude = ldexpf(kValues[code % 8], exponent - 253);
    return code < 8 ? magnitude : -magnitude;
  }
};

// Rows of x, times their scales.
struct Rows {
  const Operand* values;
  i64 stride;
  const float* scales;
  int width;

  __device__ void load(i64 row, int k, float (&loaded)[8]) const {
    widen(values + row * stride + k, loaded);
    const float scale = kNarrow ? scales[row * (width / kScaleGroup) + k / kScaleGroup] : 1.0f;
    for (int i = 0; i < 8; ++i) loaded[i] *= scale;
  }
};

// What lies between the products.
struct BetweenRows {
  const float* values;

  __device__ void load(i64 row, int k, float (&loaded)[8]) const {
    for (int i = 0; i < 8; ++i) loaded[i] = values[row * kIntermediate + k + i];
  }
};

__device__ BetweenRows down_rows(const float* between, const float*) { return {between}; }
__device__ Rows down_rows(const Operand* x, const float* scales) { return {x, kIntermediate, scales, kIntermediate}; }

}  // namespace

#if HAS_UP

// between [places, INTERMEDIATE], f32 as scratch; places without a row are not written.
extern "C" __global__ void moe_experts_reference_up(const Operand* x, i64 x_row, const float* x_scale,
                                                    const int* sorted, const int* offsets, const void* weights,
                                                    i64 weight_row, i64 weight_expert, const void* scales,
                                                    const Element* biases, UpOut* between, int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int place = int(index / kIntermediate), column = int(index % kIntermediate);
  if (place >= places || !has_row(sorted, offsets, place, tokens)) return;
  const int row = kOfPlaces ? place : token_of(sorted[place], tokens);
  const int expert = expert_of(offsets, place);
  const Rows rows{x, x_row, x_scale, kHidden};
  const Weights<2, kIntermediate, kHidden> of{weights, weight_row, weight_expert, scales, biases};
  float gate = 0, up = 0;
  for (int k = 0; k < kHidden; k += 8) {
    float values[8] = {}, of_gate[8], of_up[8];
    if (row >= 0) rows.load(row, k, values);
    of.load(expert, 0, column, k, of_gate);
    of.load(expert, 1, column, k, of_up);
    for (int i = 0; i < 8; ++i) {
      gate = __fmaf_rn(values[i], of_gate[i], gate);
      up = __fmaf_rn(values[i], of_up[i], up);
    }
  }
  write(between + index,
        rounded(gated(rounded(gate + of.bias(expert, 0, column)), rounded(up + of.bias(expert, 1, column)))));
}

// Of the baseline in e4m3: a thread a group.
extern "C" __global__ void moe_experts_reference_quantize(float* between, const int* sorted, const int* offsets,
                                                          int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  constexpr int kGroups = ceil_div(kIntermediate, kScaleGroup);
  if (index >= i64(places) * kGroups || !has_row(sorted, offsets, int(index / kGroups), tokens)) return;
  float* const values = between + index * kScaleGroup;
  float largest = 0;
  for (int i = 0; i < kScaleGroup; ++i) largest = fmaxf(largest, fabsf(values[i]));
  const float scale = scale_of(largest);
  for (int i = 0; i < kScaleGroup; ++i)
    values[i] =
        scale * Fp16::to_float({static_cast<u16>(widen_e4m3x2(quantize_pair(values[i], 0.0f, inverse_of(scale))))});
}

#endif

#if HAS_DOWN

extern "C" __global__ void moe_experts_reference_down(const DownIn* rows, const float* row_scale, const int* offsets,
                                                      const int* inverse, const float* shares, const void* weights,
                                                      i64 weight_row, i64 weight_expert, const void* scales,
                                                      const Element* biases, Out* out, i64 out_row, int tokens,
                                                      int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 row = index / kHidden;
  const int column = int(index % kHidden);
  const auto own = down_rows(rows, row_scale);
  const Weights<1, kHidden, kIntermediate> of{weights, weight_row, weight_expert, scales, biases};
  const auto product_of = [&](int place) {
    const int expert = expert_of(offsets, place);
    float product = 0;
    for (int k = 0; k < kIntermediate; k += 8) {
      float values[8], of_column[8];
      own.load(place, k, values);
      of.load(expert, 0, column, k, of_column);
      for (int i = 0; i < 8; ++i) product = __fmaf_rn(values[i], of_column[i], product);
    }
    return rounded(product + of.bias(expert, 0, column));
  };
  if (row >= (kToPlaces ? min_of(places, offsets[kExperts]) : tokens)) return;
  float sum = 0;
  if (kToPlaces) {
    sum = product_of(int(row));
  } else {
    for (i64 slot = row * kTopK; slot < (row + 1) * kTopK; ++slot) {
      if (inverse[slot] >= 0) sum = rounded(add_row(shares[slot], product_of(inverse[slot]), sum));
    }
  }
  write(out + row * out_row + column, sum);
}

#endif
