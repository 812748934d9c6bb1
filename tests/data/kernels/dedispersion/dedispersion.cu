extern "C" __global__ void dedisperse(float* out, const unsigned char* in, const short* delays, int samples,
                                      int measures, int channels, int longest) {
  const int row = samples + longest;
  float sums[tile_size_y][tile_size_x] = {};
  int x[tile_size_x], y[tile_size_y];
  for (int t = 0; t < tile_size_x; ++t)
    x[t] = blockIdx.x * block_size_x * tile_size_x +
           (tile_stride_x ? threadIdx.x + t * block_size_x : threadIdx.x * tile_size_x + t);
  for (int t = 0; t < tile_size_y; ++t) y[t] = (blockIdx.y * tile_size_y + t) * block_size_y + threadIdx.y;
#pragma unroll loop_unroll
  for (int c = 0; c < channels; ++c) {
#pragma unroll
    for (int j = 0; j < tile_size_y; ++j) {
      const int delay = y[j] < measures ? delays[c] * y[j] / measures : 0;
#pragma unroll
      for (int i = 0; i < tile_size_x; ++i)
        if (x[i] < samples) sums[j][i] += in[c * row + x[i] + delay];
    }
  }
  for (int j = 0; j < tile_size_y; ++j)
    for (int i = 0; i < tile_size_x; ++i)
      if (x[i] < samples && y[j] < measures) out[y[j] * samples + x[i]] = sums[j][i];
}
