// The plain version of qk_norm_rope: a thread takes a head.
//
// Macros: those of qk_norm_rope.cu but for parameters; EXACT (1: sums in double, outputs in f32; 0: sums in float, and
// heads are rounded to their type between the norm and RoPE, and before they become e4m3).
#include "templates/common/quantize.cuh"
#include "templates/qk_norm_rope/arguments.cuh"

__device__ u8 quantized(float value, float scale) { return u8(quantize_pair(value, 0.0f, inverse_of(scale))); }

// write_cached: value = what is written * scale.
#if EXACT
using Real = double;
using Out = float;
using CacheOut = float;
__device__ Real between(Real value) { return value; }
__device__ void write(float* out, Real value) { *out = float(value); }
// What becomes e4m3 is rounded here, too: values must be equal, and keys are off only where a sum's last bit decides.
__device__ void write_cached(float* out, Real value, float scale) {
  *out = float(value * inverse_of(scale));
  if (!kNarrow) return;
  const u8 bits = quantized(float(value), scale);
  if ((bits & 0x7f) != 0x7f) *out = Fp16::to_float({u16(widen_e4m3x2(bits))});
}
#else
using Real = float;
using Out = Element;
using CacheOut = Cached;
__device__ Real between(Real value) { return round_through<Element>(value); }
template <typename Wide>
__device__ void write(Wide* out, Real value) {
  *out = Wide::from_float(value);
}
template <typename Wide>
__device__ void write_cached(Wide* out, Real value, float) {
  write(out, value);
}
__device__ void write_cached(E4m3* out, Real value, float scale) { out->bits = quantized(between(value), scale); }
#endif

__device__ float number_of(float value) { return value; }
__device__ float number_of(Element value) { return Element::to_float(value); }
template <typename Other>
__device__ float number_of(Other value) {
  return Other::to_float(value);
}

extern "C" __global__ void qk_norm_rope_reference(HEAD_PARAMETERS(Out, CacheOut)) {
  using Arguments = HeadArguments<Out, CacheOut>;
  const Arguments a HEAD_ARGUMENTS;
  const i64 task = i64(blockIdx.x) * blockDim.x + threadIdx.x, token = task / kHeads;
  const int head = int(task % kHeads);
  if (token >= tokens) return;
  const bool is_cached = Arguments::is_cached(head), is_value = Arguments::is_value(head);
  Out* const row = is_cached ? nullptr : a.in_rows(token, head);
  CacheOut* const place = is_cached ? a.in_cache(token, head) : nullptr;
  if (row == nullptr && place == nullptr) return;
  const Element* const from = qkv + token * qkv_row + head * kHeadDim;
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
  const float scale = kNarrow && is_cached ? a.scale(head) : 1;
  const auto write_at = [&](int c, Real value) {
    is_cached ? write_cached(place + c, value, scale) : write(row + c, value);
  };
  for (int c = 0; c < kHeadDim; ++c) {
    if (is_value || c >= ROTARY_DIM) {
      write_at(c, value_at(c));
      continue;
    }
    constexpr int kHalf = ROTARY_DIM / 2;
    const int angle = NEIGHBORS ? c / 2 : c % kHalf, partner = NEIGHBORS ? c ^ 1 : (c + kHalf) % ROTARY_DIM;
    const Real cosine = number_of(cos[token * cos_row + angle]), sine = number_of(sin[token * sin_row + angle]);
    write_at(c, value_at(c) * cosine + (partner > c ? -value_at(partner) : value_at(partner)) * sine);
  }
}
