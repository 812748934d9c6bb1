extern "C" __global__ void average_neighbors(float* next, const float* now, int width, int height) {
  const int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int i = y * width + x;
  const bool is_inner = x > 0 && y > 0 && x < width - 1 && y < height - 1;
  next[i] = is_inner ? 0.2f * (now[i] + now[i - 1] + now[i + 1] + now[i - width] + now[i + width]) : now[i];
}
