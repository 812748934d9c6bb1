__global__ void convolve_plainly(float* out, const float* in, const float* weights) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= WIDTH) return;
  float sum = 0;
  for (int j = 0; j < FILTER; ++j)
    for (int i = 0; i < FILTER; ++i) sum += in[(y + j) * (WIDTH + FILTER - 1) + x + i] * weights[j * FILTER + i];
  out[y * WIDTH + x] = sum;
}
