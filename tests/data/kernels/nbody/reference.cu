extern "C" __global__ void attract_plainly(float4* to, float4* speed_to, const float4* from, const float4* speed,
                                           int bodies, float step, float softening) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  double x = 0, y = 0, z = 0;
  for (int i = 0; i < bodies; ++i) {
    const double dx = double(from[i].x) - from[at].x, dy = double(from[i].y) - from[at].y,
                 dz = double(from[i].z) - from[at].z;
    const double square = dx * dx + dy * dy + dz * dz + softening, force = from[i].w / (square * sqrt(square));
    x += dx * force, y += dy * force, z += dz * force;
  }
  const float4 was = speed[at];
  const float4 now = make_float4(was.x + step * x, was.y + step * y, was.z + step * z, was.w);
  speed_to[at] = now;
  to[at] = make_float4(from[at].x + step * now.x, from[at].y + step * now.y, from[at].z + step * now.z, from[at].w);
}
