// The plain version of moe_experts: a thread an element, sums in fp32. The baseline rounds what a plain implementation
// in the elements' type writes between its steps; with e4m3, also `between`, in groups as those of x.
//
// Macros: those of shape.cuh; EXACT (1: nothing is rounded, the output is f32).
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

// The scale of 8 values of K of a row, of scales with so many in a row.
__device__ float scale_at(const float* scales, i64 row, int depth, int k) {
  return kNarrow ? scales[row * (depth / kScaleGroup) + k / kScaleGroup] : 1.0f;
}

}  // namespace

// between f32 [places, INTERMEDIATE]; rows of padding are not written.
extern "C" __global__ void moe_experts_reference_up(const Operand* x, i64 x_row, const float* x_scale,
                                                    const int* sorted, const int* offsets,
                                                    const Operand* weights, i64 weight_row, i64 weight_expert,
                                                    const float* scales, float* between, int tokens,
                                                    int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int place = int(index / kIntermediate), column = int(index % kIntermediate);
  if (place >= places) return;
  const int token = token_of(sorted[place], tokens);
  if (token < 0) return;
  const int expert = expert_of(offsets, place);
  const Operand* const row = x + i64(token) * x_row;
  const Operand* const gates = weights + expert * weight_expert + column * weight_row;
  const Operand* const ups = gates + kIntermediate * weight_row;
  const i64 block = (i64(expert) * 2 * kIntermediate + column) / kScaleGroup;
  float gate = 0, up = 0;
  for (int k = 0; k < kHidden; k += 8) {
    float values[8], of_gate[8], of_up[8];
    widen(row + k, values);
    widen(gates + k, of_gate);
    widen(ups + k, of_up);
    const float scale = scale_at(x_scale, token, kHidden, k),
                gate_scale = scale * scale_at(scales, block, kHidden, k),
                up_scale = scale * scale_at(scales, block + kIntermediate / kScaleGroup, kHidden, k);
    for (int i = 0; i < 8; ++i) {
      gate = __fmaf_rn(values[i] * gate_scale, of_gate[i], gate);
      up = __fmaf_rn(values[i] * up_scale, of_up[i], up);
    }
  }
  between[index] = rounded(gated(rounded(gate), rounded(up)));
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
                                                      const Operand* weights, i64 weight_row,
                                                      i64 weight_expert, const float* scales, Out* out,
                                                      i64 out_row, int tokens) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 token = index / kHidden, column = index % kHidden;
  if (token >= tokens) return;
  float sum = 0;
  for (i64 slot = token * kTopK; slot < (token + 1) * kTopK; ++slot) {
    const int place = inverse[slot];
    if (place < 0) continue;
    const int expert = expert_of(offsets, place);
    const Operand* const row = weights + expert * weight_expert + column * weight_row;
    const i64 block = (i64(expert) * kHidden + column) / kScaleGroup;
    float product = 0;
    for (int k = 0; k < kIntermediate; k += 8) {
      float values[8];
      widen(row + k, values);
      const float scale = scale_at(scales, block, kIntermediate, k);
      for (int i = 0; i < 8; ++i)
        product = __fmaf_rn(between[i64(place) * kIntermediate + k + i] * scale, values[i], product);
    }
    sum = rounded(add_row(shares[slot], rounded(product), sum));
  }
  write(out + token * out_row + column, sum);
}
