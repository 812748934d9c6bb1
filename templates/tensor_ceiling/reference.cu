// The plain version of tensor_ceiling, one written sum a thread, in integers.
#include "templates/tensor_ceiling/tiles.cuh"

extern "C" __global__ void tensor_ceiling_reference(const float* a, const float* b, float* sums, i64 tiles,
                                                    i32 periods) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < tiles * kTileSums; i += stride) {
    const i64 set = i / kTileSums % kSets;
    const int quarter = i / kRows % (kColumns / kSumColumns), row = i % kRows;
    const float* row_of_a = a + (set * kRows + row) * kPeriod;
    i32 sum = 0;
    for (int column = quarter * kSumColumns; column < (quarter + 1) * kSumColumns; ++column) {
      for (int k = 0; k < kPeriod; ++k)
        sum += static_cast<i32>(operand_of(row_of_a[k])) * static_cast<i32>(operand_of(b[column * kPeriod + k]));
    }
    sums[i] = static_cast<float>(sum * periods);
  }
}
