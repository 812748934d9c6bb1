constexpr int kThreads = block_size_x * block_size_y;

__device__ double sum_of_threads(double mine, int thread, int threads) {
  __shared__ double sums[kThreads > 256 ? kThreads : 256];
  sums[thread] = mine;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (thread < half) sums[thread] += sums[thread + half];
    __syncthreads();
  }
  return sums[0];
}

extern "C" __global__ void sum_pairs(double* partial, const double2* a, const double2* b, const double* scale_a,
                                     const double* scale_b, int m, int n) {
  double sum = 0;
#pragma unroll
  for (int ti = 0; ti < tile_size_x; ++ti) {
#pragma unroll
    for (int tj = 0; tj < tile_size_y; ++tj) {
      const int i = (blockIdx.x * tile_size_x + ti) * block_size_x + threadIdx.x;
      const int j = (blockIdx.y * tile_size_y + tj) * block_size_y + threadIdx.y;
      if (i >= m || j >= n) continue;
      const double dx = a[i].x - b[j].x, dy = a[i].y - b[j].y;
      sum += exp(-(dx * dx + dy * dy) / (scale_a[i] + scale_b[j]));
    }
  }
  sum = sum_of_threads(sum, threadIdx.y * block_size_x + threadIdx.x, kThreads);
  if (threadIdx.x == 0 && threadIdx.y == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

extern "C" __global__ void sum_blocks(double* total, const double* partial, int blocks) {
  double mine = 0;
  for (int i = threadIdx.x; i < blocks; i += 256) mine += partial[i];
  mine = sum_of_threads(mine, threadIdx.x, 256);
  if (threadIdx.x == 0) total[0] = mine;
}
