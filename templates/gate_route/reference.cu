// The plain version of gate_route: a warp adds up a logit, then a thread routes a token. Inputs whose sums of products
// are exact in fp32 give the same logits, and so the same choice, in whatever order they are added up.
//
// Macros: IN, HAS_BIAS, Element, ROUNDED (to what logits are rounded), and those of shape.cuh; EXACT (1: logits are
// stored as f32, rounded all the same).
#if EXACT
#undef LOGITS
#define LOGITS Fp32
#endif
#include "templates/gate_route/shape.cuh"
#include "templates/router/reference.cu"

extern "C" __global__ void gate_route_reference_logits(const Element* x, const Element* weight, const Element* bias,
                                                       Logit* logits, i64 x_row, i64 weight_row) {
  const int expert = blockIdx.x;
  const i64 token = blockIdx.y;
  __shared__ float sums[kWarpSize];
  float own = 0;
  for (int c = threadIdx.x; c < IN; c += kWarpSize)
    own += Element::to_float(x[token * x_row + c]) * Element::to_float(weight[expert * weight_row + c]);
  sums[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (int i = 0; i < kWarpSize; ++i) sum += sums[i];
  if (HAS_BIAS) sum += Element::to_float(bias[expert]);
  logits[token * kExperts + expert] = Logit::from_float(ROUNDED::to_float(ROUNDED::from_float(sum)));
}
