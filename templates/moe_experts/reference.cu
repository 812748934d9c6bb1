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
    } else {
      const int index = kBiased ? kMatrices * column + matrix : matrix * kWidth + column;
      widen(static_cast<const Operand*>(values) + of_expert * expert + index * row + k, loaded);
      if constexpr (kNarrow) {
        const i64 block = (i64(of_expert) * kMatrices * kWidth + index) / kScaleGroup;
        const float scale =
            static_cast<const float*>(scales)[block * (kDepth / kScaleGroup) + k / kScaleGroup];
        for (int i = 0; i < 8; ++i) loaded[i] *= scale;
      }
    }
  }

  __device__ float bias(int of_expert, int matrix, int column) const {
    return kBiased ? Element::to_float(biases[(i64(of_expert) * kWidth + column) * kMatrices + matrix])
                   : 0.0f;
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
    const int exponent = static_cast<const u8*>(
        scales)[block * kPackedScaleBytes + 4 * own + k % kPackedDepth / 32 * 2 + half];
    const float magnitude = ldexpf(kValues[code % 8], exponent - 253);
    return code < 8 ? magnitude : -magnitude;
  }
};

}  // namespace

// between f32 [places, INTERMEDIATE]; rows of padding are not written.
extern "C" __global__ void moe_experts_reference_up(const Operand* x, i64 x_row, const float* x_scale,
                                                    const int* sorted, const int* offsets,
                                                    const void* weights, i64 weight_row, i64 weight_expert,
                                                    const void* scales, const Element* biases, float* between,
                                                    int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int place = int(index / kIntermediate), column = int(index % kIntermediate);
  if (place >= places) return;
  const int token = token_of(sorted[place], tokens);
  if (token < 0) return;
  const int expert = expert_of(offsets, place);
  const Weights<2, kIntermediate, kHidden> of{weights, weight_row, weight_expert, scales, biases};
  float gate = 0, up = 0;
  for (int k = 0; k < kHidden; k += 8) {
    float values[8], of_gate[8], of_up[8];
    widen(x + i64(token) * x_row + k, values);
    of.load(expert, 0, column, k, of_gate);
    of.load(expert, 1, column, k, of_up);
    const float scale = kNarrow ? x_scale[i64(token) * (kHidden / kScaleGroup) + k / kScaleGroup] : 1.0f;
    for (int i = 0; i < 8; ++i) {
      gate = __fmaf_rn(values[i] * scale, of_gate[i], gate);
      up = __fmaf_rn(values[i] * scale, of_up[i], up);
    }
  }
  between[index] =
      rounded(gated(rounded(gate + of.bias(expert, 0, column)), rounded(up + of.bias(expert, 1, column))));
}

// Of the baseline in e4m3: a thread a group.
extern "C" __global__ void moe_experts_reference_quantize(float* between, const int* sorted, int tokens,
                                                          int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  constexpr int kGroups = ceil_div(kIntermediate, kScaleGroup);
  if (index >= i64(places) * kGroups || token_of(sorted[index / kGroups], tokens) < 0) return;
  float* const values = between + index * kScaleGroup;
  float largest = 0;
  for (int i = 0; i < kScaleGroup; ++i) largest = fmaxf(largest, fabsf(values[i]));
  const float scale = scale_of(largest);
  for (int i = 0; i < kScaleGroup; ++i)
    values[i] =
        scale *
        Fp16::to_float({static_cast<u16>(widen_e4m3x2(quantize_pair(values[i], 0.0f, inverse_of(scale))))});
}

extern "C" __global__ void moe_experts_reference_down(const float* between, const int* offsets,
                                                      const int* inverse, const float* shares,
                                                      const void* weights, i64 weight_row, i64 weight_expert,
                                                      const void* scales, const Element* biases, Out* out,
                                                      i64 out_row, int tokens) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 token = index / kHidden;
  const int column = int(index % kHidden);
  if (token >= tokens) return;
  const Weights<1, kHidden, kIntermediate> of{weights, weight_row, weight_expert, scales, biases};
  float sum = 0;
  for (i64 slot = token * kTopK; slot < (token + 1) * kTopK; ++slot) {
    const int place = inverse[slot];
    if (place < 0) continue;
    const int expert = expert_of(offsets, place);
    float product = 0;
    for (int k = 0; k < kIntermediate; k += 8) {
      float values[8];
      of.load(expert, 0, column, k, values);
      for (int i = 0; i < 8; ++i)
        product = __fmaf_rn(between[i64(place) * kIntermediate + k + i], values[i], product);
    }
    sum = rounded(add_row(shares[slot], rounded(product + of.bias(expert, 0, column)), sum));
  }
  write(out + token * out_row + column, sum);
}
