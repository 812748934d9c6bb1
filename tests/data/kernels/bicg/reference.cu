extern "C" __global__ void multiply_right(float* q, const float* a, const float* p, int rows, int columns) {
  const int y = blockIdx.x * blockDim.x + threadIdx.x;
  if (y >= rows) return;
  double sum = 0;
  for (int x = 0; x < columns; ++x) sum += double(a[(long long)y * columns + x]) * p[x];
  q[y] = sum;
}

extern "C" __global__ void multiply_left(float* s, const float* a, const float* r, int rows, int columns) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= columns) return;
  double sum = 0;
  for (int y = 0; y < rows; ++y) sum += double(a[(long long)y * columns + x]) * r[y];
  s[x] = sum;
}
