// y = softmax(x) over each row: a block takes a row, and reads it once (KEEP) or twice.
//
// Parameters: THREADS of a block; VECTOR, the floats that a thread reads at once; KEEP (1: the row stays in shared
// memory between the passes).
#include "templates/common/reduce.cuh"
#include "templates/common/types.cuh"

constexpr int kWarps = THREADS / kWarpSize;
constexpr float kLog2e = 1.4426950408889634f;  // exp(x) is 2^(x log2 e), which the hardware has

struct alignas(4 * VECTOR) Pack {
  float values[VECTOR];
};

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float* x, float* y, i32 columns) {
  extern __shared__ __align__(16) unsigned char kept[];
  __shared__ float maxima[kWarps], sums[kWarps];
  const i64 begin = i64(blockIdx.x) * columns;
  const Pack* const row = reinterpret_cast<const Pack*>(x + begin);
  const int packs = columns / VECTOR;

  // Each thread's maximum, and the sum of 2^(x - maximum).
  float maximum = lowest(), sum = 0;
  for (int i = threadIdx.x; i < packs; i += THREADS) {
    const Pack pack = row[i];
    if (KEEP) reinterpret_cast<Pack*>(kept)[i] = pack;
#pragma unroll
    for (int k = 0; k < VECTOR; ++k) {
      const float value = pack.values[k] * kLog2e, larger = fmaxf(maximum, value);
      sum = sum * exp2_fast(maximum - larger) + exp2_fast(value - larger);
      maximum = larger;
    }
  }

  const float warp_maximum = max_across<kWarpSize>(maximum);
  const float warp_sum = sum_across<kWarpSize>(sum * exp2_fast(maximum - warp_maximum));
  if (threadIdx.x % kWarpSize == 0) {
    maxima[threadIdx.x / kWarpSize] = warp_maximum;
    sums[threadIdx.x / kWarpSize] = warp_sum;
  }
  __syncthreads();
  float row_maximum = lowest(), row_sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) row_maximum = fmaxf(row_maximum, maxima[warp]);
  for (int warp = 0; warp < kWarps; ++warp) row_sum += sums[warp] * exp2_fast(maxima[warp] - row_maximum);

  // A thread finds what it kept itself.
  const float scale = 1 / row_sum;
  for (int i = threadIdx.x; i < packs; i += THREADS) {
    Pack pack = KEEP ? reinterpret_cast<const Pack*>(kept)[i] : row[i];
#pragma unroll
    for (int k = 0; k < VECTOR; ++k) pack.values[k] = exp2_fast(pack.values[k] * kLog2e - row_maximum) * scale;
    reinterpret_cast<Pack*>(y + begin)[i] = pack;
  }
}
