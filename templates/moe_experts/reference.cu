// The plain version of moe_experts: a thread an element, sums in fp32. The baseline rounds what a plain implementation
// in the elements' type writes between its steps.
//
// Macros: those of shape.cuh; EXACT (1: nothing is rounded, the output is f32).
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

}  // namespace

// between f32 [places, INTERMEDIATE]; rows of padding are not written.
extern "C" __global__ void moe_experts_reference_up(const Element* x, i64 x_row, const int* sorted,
                                                    const int* offsets, const Element* weights,
                                                    i64 weight_row, i64 weight_expert, float* between,
                                                    int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int place = int(index / kIntermediate), column = int(index % kIntermediate);
  if (place >= places) return;
  const int token = token_of(sorted[place], tokens);
  if (token < 0) return;
  const Element* const row = x + i64(token) * x_row;
  const Element* const gates = weights + expert_of(offsets, place) * weight_expert + column * weight_row;
  const Element* const ups = gates + kIntermediate * weight_row;
  float gate = 0, up = 0;
  for (int k = 0; k < kHidden; k += 8) {
    float values[8], of_gate[8], of_up[8];
    widen(row + k, values);
    widen(gates + k, of_gate);
    widen(ups + k, of_up);
    for (int i = 0; i < 8; ++i) {
      gate = __fmaf_rn(values[i], of_gate[i], gate);
      up = __fmaf_rn(values[i], of_up[i], up);
    }
  }
  between[index] = rounded(gated(rounded(gate), rounded(up)));
}

extern "C" __global__ void moe_experts_reference_down(const float* between, const int* offsets,
                                                      const int* inverse, const float* shares,
                                                      const Element* weights, i64 weight_row,
                                                      i64 weight_expert, Out* out, i64 out_row, int tokens) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 token = index / kHidden, column = index % kHidden;
  if (token >= tokens) return;
  float sum = 0;
  for (i64 slot = token * kTopK; slot < (token + 1) * kTopK; ++slot) {
    const int place = inverse[slot];
    if (place < 0) continue;
    const Element* const row = weights + expert_of(offsets, place) * weight_expert + column * weight_row;
    float product = 0;
    for (int k = 0; k < kIntermediate; k += 8) {
      float values[8];
      widen(row + k, values);
      for (int i = 0; i < 8; ++i)
        product = __fmaf_rn(between[i64(place) * kIntermediate + k + i], values[i], product);
    }
    sum = rounded(add_row(shares[slot], rounded(product), sum));
  }
  write(out + token * out_row + column, sum);
}
