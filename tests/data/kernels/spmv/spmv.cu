// So many lanes of a warp take a row together.
template <typename T>
__device__ T read(const T* from) {
  return read_only ? __ldg(from) : *from;
}

extern "C" __global__ void multiply_rows(float* y, const int* starts, const int* indices, const float* values,
                                         const float* x, int rows) {
  const int thread = blockIdx.x * block_size_x + threadIdx.x, row = thread / threads_per_row;
  float sum = 0;
  if (row < rows) {
    const int end = read(starts + row + 1);
    for (int i = read(starts + row) + thread % threads_per_row; i < end; i += threads_per_row)
      sum += read(values + i) * read(x + read(indices + i));
  }
  for (int lane = threads_per_row / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  if (row < rows && thread % threads_per_row == 0) y[row] = sum;
}
