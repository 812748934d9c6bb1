// Square tiles of a, and as many of b beside each other as a thread has columns.
constexpr int kTile = block_size_x;

extern "C" __global__ void multiply(float* c, const float* a, const float* b) {
  __shared__ float of_a[kTile][kTile], of_b[kTile][kTile * tile_size_x];
  const int x = blockIdx.x * kTile * tile_size_x + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  float sums[tile_size_y][tile_size_x] = {};
  for (int k = 0; k < N; k += kTile) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile_size_y; ++i) {
      const int row = threadIdx.y + i * block_size_y;
      of_a[row][threadIdx.x] = a[(y + i * block_size_y) * N + k + threadIdx.x];
#pragma unroll
      for (int j = 0; j < tile_size_x; ++j) of_b[row][threadIdx.x + j * kTile] = b[(k + row) * N + x + j * kTile];
    }
    __syncthreads();
#pragma unroll
    for (int inner = 0; inner < kTile; ++inner)
#pragma unroll
      for (int i = 0; i < tile_size_y; ++i)
#pragma unroll
        for (int j = 0; j < tile_size_x; ++j)
          sums[i][j] += of_a[threadIdx.y + i * block_size_y][inner] * of_b[inner][threadIdx.x + j * kTile];
  }
  for (int i = 0; i < tile_size_y; ++i)
    for (int j = 0; j < tile_size_x; ++j) c[(y + i * block_size_y) * N + x + j * kTile] = sums[i][j];
}
