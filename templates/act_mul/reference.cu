// The plain version of act_mul: a thread takes 128 values of a row.
//
// Macros: those of act_mul.cu but for parameters; EXACT (1: in double, values in f32 that are not rounded to e4m3; 0:
// in float, and what becomes e4m3 is rounded to the inputs' type first).
#include "templates/common/quantize.cuh"

#if EXACT
using Real = double;
using Out = float;
#else
using Real = float;
using Out = void;
#endif

constexpr int kWidth = INTERMEDIATE, kGroup = 128, kGroups = ceil_div(kWidth, kGroup);

__device__ float value_at(const Element* row, int column) {
  Real gate = Element::to_float(row[IN_TURN ? 2 * column : column]);
  Real up = Element::to_float(row[IN_TURN ? 2 * column + 1 : kWidth + column]);
  if (CLAMPED) {
    gate = gate > 7 ? Real(7) : gate;
    up = (up > 7 ? Real(7) : up < -7 ? Real(-7) : up) + 1;
  }
  const Real value = gate / (1 + exp(CLAMPED ? Real(-1.702) * gate : -gate)) * up;
  return NARROW && !EXACT ? round_through<Element>(float(value)) : float(value);
}

extern "C" __global__ void act_mul_reference(const Element* x, Out* out, float* scales, i64 x_row, i64 out_row,
                                             i32 tokens) {
  const i64 task = i64(blockIdx.x) * blockDim.x + threadIdx.x, token = task / kGroups;
  const int group = int(task % kGroups), begin = group * kGroup, end = min_of(begin + kGroup, kWidth);
  if (token >= tokens) return;
  const Element* const row = x + token * x_row;
  float largest = 0;
  for (int c = begin; c < end && NARROW; ++c) largest = fmaxf(largest, fabsf(value_at(row, c)));
  const float scale = scale_of(largest);
  if (NARROW) scales[token * kGroups + group] = scale;
  for (int c = begin; c < end; ++c) {
    const float value = value_at(row, c);
    const i64 place = token * out_row + c;
#if EXACT
    out[place] = NARROW ? value / scale : value;
#else
    if (NARROW) {
      static_cast<u8*>(out)[place] = u8(quantize_pair(value, 0.0f, inverse_of(scale)));
    } else {
      static_cast<Element*>(out)[place] = Element::from_float(value);
    }
#endif
  }
}
