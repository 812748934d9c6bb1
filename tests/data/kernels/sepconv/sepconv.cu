__constant__ float filter[2 * RADIUS + 1];

extern "C" __global__ void filter_rows(float* out, const float* in, int width) {
  for (int t = 0; t < tile_size; ++t) {
    const int x = (blockIdx.x * tile_size + t) * row_block + threadIdx.x, y = blockIdx.y;
    if (x >= width) return;
    float sum = 0;
    for (int i = -RADIUS; i <= RADIUS; ++i)
      if (x + i >= 0 && x + i < width) sum += in[y * width + x + i] * filter[i + RADIUS];
    out[y * width + x] = sum;
  }
}

extern "C" __global__ void filter_columns(float* out, const float* in, int width, int height) {
  const int x = blockIdx.x * 32 + threadIdx.x;
  if (x >= width) return;
  for (int t = 0; t < tile_size; ++t) {
    const int y = (blockIdx.y * tile_size + t) * column_block + threadIdx.y;
    if (y >= height) return;
    float sum = 0;
    for (int i = -RADIUS; i <= RADIUS; ++i)
      if (y + i >= 0 && y + i < height) sum += in[(y + i) * width + x] * filter[i + RADIUS];
    out[y * width + x] = sum;
  }
}
