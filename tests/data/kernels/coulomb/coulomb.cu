struct PointGrid {
  int size;
  float spacing;
};

#if use_constant
__constant__ float4 fixed_atoms[ATOMS];
#endif

extern "C" __global__ void add_potentials(float* energy, const float4* atoms, PointGrid grid) {
  const int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y,
            z = blockIdx.z * z_iterations;
  if (x >= grid.size || y >= grid.size) return;
  float sums[z_iterations] = {};
#pragma unroll inner_unroll
  for (int i = 0; i < ATOMS; ++i) {
#if use_constant
    const float4 atom = fixed_atoms[i];
#else
    const float4 atom = atoms[i];
#endif
    const float dx = x * grid.spacing - atom.x, dy = y * grid.spacing - atom.y;
#pragma unroll
    for (int t = 0; t < z_iterations; ++t) {
      const float dz = (z + t) * grid.spacing - atom.z;
      sums[t] += atom.w * rsqrtf(dx * dx + dy * dy + dz * dz + 0.0625f);
    }
  }
  for (int t = 0; t < z_iterations; ++t) energy[((z + t) * grid.size + y) * grid.size + x] = sums[t];
}
