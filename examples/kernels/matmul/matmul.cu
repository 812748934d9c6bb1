// c = alpha a b^T: a warp sums tiles of 16x16 with the tensor cores, a block takes warps_m x warps_n warps. Each z of
// the grid takes a part of k; with several parts add_up() sums them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int kTile = 16;

// The sums of one warp go through shared memory, because matrices need not be whole tiles.
template <typename Type, int WarpsM, int WarpsN, int TilesM, int TilesN>
__global__ void gemm(const Type* a, const Type* b, float* c, float* parts, int m, int n, int k, int steps,
                     float alpha) {
  __shared__ Type rows_a[WarpsM * TilesM * kTile][kTile], rows_b[WarpsN * TilesN * kTile][kTile];
  __shared__ float sums[WarpsM * WarpsN][kTile * kTile];
  constexpr int kThreads = 32 * WarpsM * WarpsN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp % WarpsM * TilesM, warp_n = warp / WarpsM * TilesN;
  const int first_m = blockIdx.y * WarpsM * TilesM * kTile, first_n = blockIdx.x * WarpsN * TilesN * kTile;
  wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> tiles[TilesM][TilesN];
  for (auto& row : tiles)
    for (auto& tile : row) wmma::fill_fragment(tile, 0.0f);

  const int first_k = blockIdx.z * steps * kTile, last_k = min(k, first_k + steps * kTile);
  for (int at = first_k; at < last_k; at += kTile) {
    for (int i = threadIdx.x; i < WarpsM * TilesM * kTile * kTile; i += kThreads) {
      const int row = first_m + i / kTile;
      rows_a[i / kTile][i % kTile] = row < m ? a[static_cast<long long>(row) * k + at + i % kTile] : Type(0.0f);
    }
    for (int i = threadIdx.x; i < WarpsN * TilesN * kTile * kTile; i += kThreads) {
      const int row = first_n + i / kTile;
      rows_b[i / kTile][i % kTile] = row < n ? b[static_cast<long long>(row) * k + at + i % kTile] : Type(0.0f);
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, Type, wmma::row_major> left[TilesM];
    for (int i = 0; i < TilesM; ++i) wmma::load_matrix_sync(left[i], rows_a[(warp_m + i) * kTile], kTile);
    for (int j = 0; j < TilesN; ++j) {
      wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, Type, wmma::col_major> right;
      wmma::load_matrix_sync(right, rows_b[(warp_n + j) * kTile], kTile);
      for (int i = 0; i < TilesM; ++i) wmma::mma_sync(tiles[i][j], left[i], right, tiles[i][j]);
    }
    __syncthreads();
  }

  float* const out = parts != nullptr ? parts + static_cast<long long>(blockIdx.z) * m * n : c;
  const float scale = parts != nullptr ? 1.0f : alpha;
  for (int i = 0; i < TilesM; ++i) {
    for (int j = 0; j < TilesN; ++j) {
      wmma::store_matrix_sync(sums[warp], tiles[i][j], kTile, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane; e < kTile * kTile; e += 32) {
        const int row = first_m + (warp_m + i) * kTile + e / kTile, column = first_n + (warp_n + j) * kTile + e % kTile;
        if (row < m && column < n) out[static_cast<long long>(row) * n + column] = scale * sums[warp][e];
      }
      __syncwarp();
    }
  }
}

__global__ void add_up(const float* parts, float* c, int count, long long elements, float alpha) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  float sum = 0;
  for (int part = 0; part < count; ++part) sum += parts[part * elements + i];
  c[i] = alpha * sum;
}
