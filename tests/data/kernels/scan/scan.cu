// The sum of what the threads in front have, and of all.
__device__ unsigned before_me(unsigned mine, unsigned& all) {
  __shared__ unsigned sums[block_size_x];
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (int step = 1; step < block_size_x; step *= 2) {
    const unsigned other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  all = sums[block_size_x - 1];
  const unsigned before = sums[threadIdx.x] - mine;
  __syncthreads();
  return before;
}

extern "C" __global__ void scan_blocks(unsigned* out, unsigned* sums, const unsigned* in, int n) {
  const int first = (blockIdx.x * block_size_x + threadIdx.x) * items;
  unsigned mine = 0, all = 0;
  for (int i = first; i < min(n, first + items); ++i) mine += in[i];
  unsigned sum = before_me(mine, all);
  for (int i = first; i < min(n, first + items); ++i) out[i] = sum += in[i];
  if (threadIdx.x == 0) sums[blockIdx.x] = all;
}

extern "C" __global__ void scan_sums(unsigned* sums, int blocks) {
  unsigned carry = 0;
  for (int first = 0; first < blocks; first += block_size_x) {
    const int i = first + threadIdx.x;
    unsigned all = 0;
    const unsigned mine = i < blocks ? sums[i] : 0, before = before_me(mine, all);
    if (i < blocks) sums[i] = carry + before + mine;
    carry += all;
  }
}

extern "C" __global__ void add_sums(unsigned* out, const unsigned* sums, int n) {
  for (int t = 0; t < items; ++t) {
    const int i = ((blockIdx.x + 1) * items + t) * block_size_x + threadIdx.x;
    if (i < n) out[i] += sums[blockIdx.x];
  }
}
