extern "C" __global__ void scan_plainly(unsigned* out, const unsigned* in, int n) {
  __shared__ unsigned sums[1024];
  const int share = (n + 1023) / 1024, first = threadIdx.x * share;
  unsigned sum = 0;
  for (int i = first; i < min(n, first + share); ++i) sum += in[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < threadIdx.x; ++i) sum += sums[i];
  for (int i = first; i < min(n, first + share); ++i) out[i] = sum += in[i];
}
