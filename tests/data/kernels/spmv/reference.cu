extern "C" __global__ void multiply_rows_plainly(float* y, const int* starts, const int* indices, const float* values,
                                                 const float* x, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = starts[row]; i < starts[row + 1]; ++i) sum += values[i] * x[indices[i]];
  y[row] = sum;
}
