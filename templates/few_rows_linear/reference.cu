// The plain version of few_rows_linear: a warp adds up one output of one token.
//
// Macros: IN, OUT, HAS_BIAS, Element; EXACT (1: sums in double, outputs in f32; 0: sums in float, outputs rounded).
#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

#if EXACT
using Sum = double;
using Out = float;
#else
using Sum = float;
using Out = Element;
#endif

constexpr int kThreads = 128;

extern "C" __global__ void few_rows_linear_reference(const Element* x, const Element* weight, const Element* bias,
                                                     Out* out, i64 x_row, i64 weight_row, i64 out_row) {
  __shared__ Sum sums[kThreads];
  const int lane = int(threadIdx.x) % kWarpSize, output = int(blockIdx.x) * 4 + int(threadIdx.x) / kWarpSize;
  const i64 token = blockIdx.y;
  Sum own = 0;
  if (output < OUT) {
    for (int c = lane; c < IN; c += kWarpSize)
      own += Sum(Element::to_float(x[token * x_row + c])) * Element::to_float(weight[output * weight_row + c]);
  }
  sums[threadIdx.x] = own;
  __syncthreads();
  if (lane != 0 || output >= OUT) return;
  Sum sum = 0;
  for (int i = 0; i < kWarpSize; ++i) sum += sums[threadIdx.x + i];
  if (HAS_BIAS) sum += Element::to_float(bias[output]);
#if EXACT
  out[token * out_row + output] = float(sum);
#else
  out[token * out_row + output] = Element::from_float(sum);
#endif
}
