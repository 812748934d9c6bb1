// c = a + b: a thread adds `elements` numbers, a block's width apart.
__global__ void vector_add(float* c, const float* a, const float* b, int n) {
  const int first = blockIdx.x * block_size_x * elements + threadIdx.x;
#pragma unroll
  for (int e = 0; e < elements; ++e) {
    const int i = first + e * block_size_x;
    if (i < n) c[i] = a[i] + b[i];
  }
}
