extern "C" __global__ void count_bytes(unsigned* counts, const unsigned char* in, int n) {
  __shared__ unsigned mine[copies][256];
  for (int i = threadIdx.x; i < copies * 256; i += block_size_x) mine[i / 256][i % 256] = 0;
  __syncthreads();
  for (long long i = blockIdx.x * block_size_x + threadIdx.x; i < n; i += blocks * block_size_x)
    atomicAdd(&mine[threadIdx.x % copies][in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += block_size_x) {
    unsigned sum = 0;
    for (int copy = 0; copy < copies; ++copy) sum += mine[copy][i];
    if (sum > 0) atomicAdd(counts + i, sum);
  }
}
