// The plain version of softmax: a thread takes a row.
//
// Macros: EXACT (1: sums in double; 0: in float).
#include "templates/common/types.cuh"

#if EXACT
using Sum = double;
#else
using Sum = float;
#endif

extern "C" __global__ void softmax_reference(const float* x, float* y, i32 rows, i32 columns) {
  const i32 row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* const in = x + i64(row) * columns;
  float* const out = y + i64(row) * columns;
  float maximum = in[0];
  for (int i = 1; i < columns; ++i) maximum = fmaxf(maximum, in[i]);
  Sum sum = 0;
  for (int i = 0; i < columns; ++i) sum += expf(in[i] - maximum);
  for (int i = 0; i < columns; ++i) out[i] = static_cast<float>(expf(in[i] - maximum) / sum);
}
