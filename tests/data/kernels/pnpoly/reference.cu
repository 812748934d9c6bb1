extern "C" __global__ void find_plainly(int* inside, const float2* points, const float2* corners, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const float2 p = points[at];
  int crossings = 0;
  for (int i = 0, last = VERTICES - 1; i < VERTICES; last = i++) {
    const float2 a = corners[i], b = corners[last];
    if ((a.y > p.y) == (b.y > p.y)) continue;
    crossings += p.x < __fadd_rn(__fmul_rn(b.x - a.x, __fdiv_rn(p.y - a.y, b.y - a.y)), a.x);
  }
  inside[at] = crossings % 2;
}
