extern "C" __global__ void gemm_plainly(float* c, const float* a, const float* b, int m, int n, int k, float alpha,
                                        float beta) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= m) return;
  double sum = 0;
  for (int i = 0; i < k; ++i) sum += double(a[i * m + x]) * b[i * n + y];
  c[y * m + x] = alpha * sum + beta * c[y * m + x];
}
