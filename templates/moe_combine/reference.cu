// The plain version of moe_combine: a thread an element. The baseline rounds every product and sum to bf16.
//
// Macros: those of shape.cuh; EXACT (1: sums in fp32, written as f32).
#include "templates/moe_combine/shape.cuh"

#if EXACT
using Out = float;
#else
using Out = Bf16;
#endif

namespace {

__device__ void write(float* out, float sum) { *out = sum; }
__device__ void write(Bf16* out, float sum) { *out = Bf16::from_float(sum); }

}  // namespace

extern "C" __global__ void moe_combine_reference(const Bf16* rows, const int* inverse, const float* weights, Out* out,
                                                 i64 out_row, int tokens) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= i64(tokens) * kHidden) return;
  const i64 token = index / kHidden, column = index % kHidden;
  float sum = 0;
  for (int j = 0; j < kTopK; ++j) {
    const int place = inverse[token * kTopK + j];
    if (place < 0) continue;
    const float value = Bf16::to_float(rows[i64(place) * kHidden + column]), weight = weights[token * kTopK + j];
    if (EXACT) {
      sum = add_share(weight, value, sum);
    } else {
      sum = round_through<Bf16>(__fadd_rn(sum, round_through<Bf16>(__fmul_rn(weight, value))));
    }
  }
  write(out + token * out_row + column, sum);
}
