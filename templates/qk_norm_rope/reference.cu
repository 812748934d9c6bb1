// The plain version of qk_norm_rope: a thread takes a head.
//
// Macros: those of qk_norm_rope.cu but for parameters; EXACT (1: sums in double, outputs in f32; 0: sums in float, and
// heads are rounded to their type between the norm and RoPE).
#include "templates/qk_norm_rope/arguments.cuh"

#if EXACT
using Real = double;
using Out = float;
__device__ Out out_of(Real value) { return float(value); }
__device__ Real between(Real value) { return value; }
#else
using Real = float;
using Out = Element;
__device__ Out out_of(Real value) { return Element::from_float(value); }
__device__ Real between(Real value) { return round_through<Element>(value); }
#endif

__device__ float number_of(float value) { return value; }
__device__ float number_of(Element value) { return Element::to_float(value); }
template <typename Other>
__device__ float number_of(Other value) {
  return Other::to_float(value);
}

extern "C" __global__ void qk_norm_rope_reference(HEAD_PARAMETERS(Out)) {
  const HeadArguments<Out> a HEAD_ARGUMENTS;
  const i64 task = i64(blockIdx.x) * blockDim.x + threadIdx.x, token = task / kHeads;
  const int head = int(task % kHeads);
  if (token >= tokens) return;
  Out* const target = a.target(token, head);
  if (target == nullptr) return;
  const Element* const from = qkv + token * qkv_row + head * kHeadDim;
  const bool is_value = head >= kQHeads + kKvHeads;
  const Element* const weight = head < kQHeads ? q_weight : k_weight;
  Real squares = 0;
  for (int c = 0; c < kHeadDim; ++c) {
    const Real value = number_of(from[c]);
    squares += value * value;
  }
  const Real factor = 1 / Real(sqrtf(float(squares / kHeadDim) + eps));
  const auto value_at = [&](int c) -> Real {
    const Real value = number_of(from[c]);
    return NORM && !is_value ? between(value * factor * number_of(weight[c])) : value;
  };
  for (int c = 0; c < kHeadDim; ++c) {
    if (is_value || c >= ROTARY_DIM) {
      target[c] = out_of(value_at(c));
      continue;
    }
    constexpr int kHalf = ROTARY_DIM / 2;
    const int angle = NEIGHBORS ? c / 2 : c % kHalf, partner = NEIGHBORS ? c ^ 1 : (c + kHalf) % ROTARY_DIM;
    const Real cosine = number_of(cos[token * cos_row + angle]), sine = number_of(sin[token * sin_row + angle]);
    target[c] = out_of(value_at(c) * cosine + (partner > c ? -value_at(partner) : value_at(partner)) * sine);
  }
}
