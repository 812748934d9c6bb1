// The plain version of matmul: a thread sums one element, in f32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename Type>
__global__ void matmul_reference(const Type* a, const Type* b, float* c, int m, int n, int k, float alpha) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i)
    sum += float(a[static_cast<long long>(row) * k + i]) * float(b[static_cast<long long>(column) * k + i]);
  c[static_cast<long long>(row) * n + column] = alpha * sum;
}
