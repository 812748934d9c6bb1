// Each block sums a share of the array; the blocks' sums are added atomically, or by another launch.
__device__ float sum_of_block(float mine) {
  __shared__ float sums[block_size_x];
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (int half = block_size_x / 2; half >= (use_shuffle ? 32 : 1); half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  float sum = sums[threadIdx.x % 32];
  if (use_shuffle) {
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  }
  return use_shuffle ? sum : sums[0];
}

extern "C" __global__ void sum_blocks(float* total, float* partial, const float* x, int n) {
  float mine = 0;
  for (long long i = (blockIdx.x * block_size_x + threadIdx.x) * (long long)vector; i < n;
       i += (long long)num_blocks * block_size_x * vector) {
    for (int v = 0; v < vector; ++v)
      if (i + v < n) mine += x[i + v];
  }
  const float sum = sum_of_block(mine);
  if (threadIdx.x != 0) return;
  if (ATOMIC) {
    atomicAdd(total, sum);
  } else {
    partial[blockIdx.x] = sum;
  }
}

extern "C" __global__ void sum_partial(float* total, const float* partial) {
  float mine = 0;
  for (int i = threadIdx.x; i < num_blocks; i += block_size_x) mine += partial[i];
  const float sum = sum_of_block(mine);
  if (threadIdx.x == 0) total[0] = sum;
}
