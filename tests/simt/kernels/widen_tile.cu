// One tile of e4m3 on its way to where the wgmma body of prefill_attention reads it, for the test of that way: whole,
// or rows [begin, end) alone.
#include "templates/prefill_attention/widen_rows.cuh"

extern "C" __global__ void widen_tile(const u8* raw, u8* tile, int begin, int end) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, warps = static_cast<int>(blockDim.x) / kWarpSize;
  const RowWidener rows;
  const RowRange kept{begin, end};
  for (int batch = warp; batch < kBatches; batch += warps) {
    if (kept.all()) {
      rows.widen<true>(raw, tile, 0, batch, kept);
    } else {
      rows.widen<false>(raw, tile, 0, batch, kept);
    }
  }
}
