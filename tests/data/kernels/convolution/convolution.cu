// The part of the image that a block needs lies in shared memory; each thread computes a few pixels.
constexpr int kSpanX = block_size_x * tile_size_x, kSpanY = block_size_y * tile_size_y;
constexpr int kPatchX = kSpanX + FILTER - 1, kPatchY = kSpanY + FILTER - 1, kInWidth = WIDTH + FILTER - 1;

__constant__ float kernel_weights[FILTER * FILTER];

__global__ void convolve(float* out, const float* in) {
  __shared__ float patch[kPatchY][kPatchX + use_padding];
  const int left = blockIdx.x * kSpanX, top = blockIdx.y * kSpanY;
  for (int y = threadIdx.y; y < kPatchY; y += block_size_y)
    for (int x = threadIdx.x; x < kPatchX; x += block_size_x)
      patch[y][x] = left + x < kInWidth && top + y < HEIGHT + FILTER - 1 ? in[(top + y) * kInWidth + left + x] : 0.0f;
  __syncthreads();
#pragma unroll
  for (int ty = 0; ty < tile_size_y; ++ty) {
#pragma unroll
    for (int tx = 0; tx < tile_size_x; ++tx) {
      const int x = threadIdx.x + tx * block_size_x, y = threadIdx.y + ty * block_size_y;
      float sum = 0;
      for (int j = 0; j < FILTER; ++j)
        for (int i = 0; i < FILTER; ++i) sum += patch[y + j][x + i] * kernel_weights[j * FILTER + i];
      if (left + x < WIDTH && top + y < HEIGHT) out[(top + y) * WIDTH + left + x] = sum;
    }
  }
}
