// A block computes its tile with a border that shrinks by one at each step.
constexpr int kTileX = block_size_x + 2 * steps, kTileY = block_size_y * tile_size_y + 2 * steps;

extern "C" __global__ void advance(float* next, const float* now, const float* power, int width, int height) {
  __shared__ float heat[2][kTileY][kTileX];
  const int left = blockIdx.x * block_size_x - steps, top = blockIdx.y * block_size_y * tile_size_y - steps;
  const auto clamp = [](int value, int most) { return min(max(value, 0), most); };
  for (int y = threadIdx.y; y < kTileY; y += block_size_y)
    for (int x = threadIdx.x; x < kTileX; x += block_size_x)
      heat[0][y][x] = now[clamp(top + y, height - 1) * width + clamp(left + x, width - 1)];
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    const auto& from = heat[step % 2];
    auto& to = heat[(step + 1) % 2];
    for (int y = threadIdx.y + step + 1; y < kTileY - step - 1; y += block_size_y) {
      for (int x = threadIdx.x + step + 1; x < kTileX - step - 1; x += block_size_x) {
        const int gx = left + x, gy = top + y;
        if (gx < 0 || gy < 0 || gx >= width || gy >= height) continue;
        const float here = from[y][x];
        const float north = gy > 0 ? from[y - 1][x] : here, south = gy < height - 1 ? from[y + 1][x] : here;
        const float west = gx > 0 ? from[y][x - 1] : here, east = gx < width - 1 ? from[y][x + 1] : here;
        to[y][x] = here + 0.1f * (power[gy * width + gx] + (north + south - 2 * here) + (west + east - 2 * here));
      }
    }
    __syncthreads();
  }
  for (int y = threadIdx.y; y < block_size_y * tile_size_y; y += block_size_y) {
    const int gx = left + steps + threadIdx.x, gy = top + steps + y;
    if (gx < width && gy < height) next[gy * width + gx] = heat[steps % 2][y + steps][threadIdx.x + steps];
  }
}
