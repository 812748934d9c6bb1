extern "C" __global__ void attract(float4* to, float4* speed_to, const float4* from, const float4* speed, int bodies,
                                   float step, float softening) {
  __shared__ float4 near[use_shared ? block_size_x : 1];
  const int at = blockIdx.x * block_size_x + threadIdx.x;
  const float4 mine = from[at];
  float x = 0, y = 0, z = 0;
  for (int first = 0; first < bodies; first += block_size_x) {
    if (use_shared) {
      __syncthreads();
      near[threadIdx.x] = from[first + threadIdx.x];
      __syncthreads();
    }
#pragma unroll inner_unroll
    for (int i = 0; i < block_size_x; ++i) {
      const float4 other = use_shared ? near[i] : from[first + i];
      const float dx = other.x - mine.x, dy = other.y - mine.y, dz = other.z - mine.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      const float force = other.w * inverse * inverse * inverse;
      x += dx * force, y += dy * force, z += dz * force;
    }
  }
  const float4 was = speed[at];
  const float4 now = make_float4(was.x + step * x, was.y + step * y, was.z + step * z, was.w);
  speed_to[at] = now;
  to[at] = make_float4(mine.x + step * now.x, mine.y + step * now.y, mine.z + step * now.z, mine.w);
}
