extern "C" __global__ void multiply_both(float* q, float* s, const float* a, const float* p, const float* r, int rows,
                                         int columns) {
  const int x = blockIdx.x * block_size_x + threadIdx.x, first = blockIdx.y * rows_per_block;
  const float mine = x < columns ? p[x] : 0.0f;
  float sum = 0;
  for (int y = first; y < min(rows, first + rows_per_block); ++y) {
    const float value = x < columns ? a[(long long)y * columns + x] : 0.0f;
    sum += value * r[y];
    float product = value * mine;
    for (int lane = 16; lane > 0; lane /= 2) product += __shfl_xor_sync(0xffffffffu, product, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(q + y, product);
  }
  if (x < columns) atomicAdd(s + x, sum);
}
