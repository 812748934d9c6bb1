extern "C" __global__ void transpose(float* out, const float* in, int width, int height) {
  __shared__ float part[tile][tile + padding];
  const int left = blockIdx.x * tile, top = blockIdx.y * tile;
  for (int y = threadIdx.y; y < tile; y += block_size_y) {
    const int at = (top + y) * width + left + threadIdx.x;
    if (left + threadIdx.x < width && top + y < height) part[y][threadIdx.x] = prefetch ? __ldg(in + at) : in[at];
  }
  __syncthreads();
  for (int y = threadIdx.y; y < tile; y += block_size_y)
    if (top + threadIdx.x < height && left + y < width)
      out[(left + y) * height + top + threadIdx.x] = part[threadIdx.x][y];
}
