__constant__ float2 corners[VERTICES];

__device__ bool is_between(float y, float a, float b) {
  if (between_method == 0) return (a > y) != (b > y);
  if (between_method == 1) return a > y ? b <= y : b > y;
  return (a <= y) ^ (b <= y);
}

extern "C" __global__ void find_inside(int* inside, const float2* points, int count) {
  const int first = blockIdx.x * block_size_x * tile_size + threadIdx.x;
  bool is_in[tile_size] = {};
  float2 point[tile_size];
#pragma unroll
  for (int t = 0; t < tile_size; ++t)
    point[t] = first + t * block_size_x < count ? points[first + t * block_size_x] : make_float2(0, 0);
  float2 last = corners[VERTICES - 1];
  for (int i = 0; i < VERTICES; ++i) {
    const float2 corner = corners[i];
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      const bool crosses =
          is_between(point[t].y, corner.y, last.y) &&
          point[t].x <
              __fadd_rn(__fmul_rn(last.x - corner.x, __fdiv_rn(point[t].y - corner.y, last.y - corner.y)), corner.x);
      is_in[t] = is_in[t] != crosses;
    }
    last = corner;
  }
#pragma unroll
  for (int t = 0; t < tile_size; ++t)
    if (first + t * block_size_x < count) inside[first + t * block_size_x] = is_in[t];
}
