extern "C" __global__ void filter_plainly(float* out, const float* in, const float* weights, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  double sum = 0;
  for (int j = -RADIUS; j <= RADIUS; ++j) {
    for (int i = -RADIUS; i <= RADIUS; ++i) {
      if (x + i < 0 || x + i >= width || y + j < 0 || y + j >= height) continue;
      sum += double(in[(y + j) * width + x + i]) * weights[i + RADIUS] * weights[j + RADIUS];
    }
  }
  out[y * width + x] = sum;
}
