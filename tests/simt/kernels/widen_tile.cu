// One tile of e4m3 on its way to where the wgmma body of prefill_attention reads it, for the test of that way.
#include "templates/prefill_attention/widen_rows.cuh"

extern "C" __global__ void widen_tile(const u8* raw, u8* tile) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize,
            warps = static_cast<int>(blockDim.x) / kWarpSize;
  const RowWidener rows;
  for (int batch = warp; batch < kBatches; batch += warps) rows.widen(raw, tile, 0, batch);
}
