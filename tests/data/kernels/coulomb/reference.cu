extern "C" __global__ void add_plainly(float* energy, const float4* atoms, int size, float spacing) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
  if (x >= size) return;
  float sum = 0;
  for (int i = 0; i < ATOMS; ++i) {
    const float dx = x * spacing - atoms[i].x, dy = y * spacing - atoms[i].y, dz = z * spacing - atoms[i].z;
    sum += atoms[i].w / sqrtf(dx * dx + dy * dy + dz * dz + 0.0625f);
  }
  energy[(z * size + y) * size + x] = sum;
}
