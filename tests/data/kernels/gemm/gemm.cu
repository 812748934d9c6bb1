// Columns lie one behind the other: a[k][m], b[k][n], c[n][m].
__shared__ float of_a[SA ? KWG : 1][SA ? MWG : 1], of_b[SB ? KWG : 1][SB ? NWG : 1];

template <int mwg, int nwg, int kwg, int mdim, int ndim>
__global__ void gemm(float* c, const float* a, const float* b, int m, int n, int k, float alpha, float beta) {
  constexpr int kRows = mwg / mdim, kColumns = nwg / ndim, kThreads = mdim * ndim;
  const int thread = threadIdx.y * mdim + threadIdx.x, x = blockIdx.x * mwg, y = blockIdx.y * nwg;
  float sums[kColumns][kRows] = {};
  for (int from = 0; from < k; from += kwg) {
    if (SA || SB) __syncthreads();
    if (SA) {
      for (int row = thread / MDIMA; row < kwg; row += kThreads / MDIMA)
        for (int i = thread % MDIMA; i < mwg; i += MDIMA) of_a[row][i] = a[(from + row) * m + x + i];
    }
    if (SB) {
      for (int row = thread / NDIMB; row < kwg; row += kThreads / NDIMB)
        for (int i = thread % NDIMB; i < nwg; i += NDIMB) of_b[row][i] = b[(from + row) * n + y + i];
    }
    if (SA || SB) __syncthreads();
#pragma unroll KWI
    for (int inner = 0; inner < kwg; ++inner) {
      float left[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int at = threadIdx.x + i * mdim;
        left[i] = SA ? of_a[inner][at] : a[(from + inner) * m + x + at];
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int at = threadIdx.y + j * ndim;
        const float right = SB ? of_b[inner][at] : b[(from + inner) * n + y + at];
#pragma unroll
        for (int i = 0; i < kRows; ++i) sums[j][i] += left[i] * right;
      }
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    for (int i = 0; i < kRows; ++i) {
      float& to = c[(y + threadIdx.y + j * ndim) * m + x + threadIdx.x + i * mdim];
      to = alpha * sums[j][i] + beta * to;
    }
  }
}
