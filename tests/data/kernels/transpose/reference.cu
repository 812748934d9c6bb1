extern "C" __global__ void transpose_plainly(float* out, const float* in, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width) out[x * height + y] = in[y * width + x];
}
