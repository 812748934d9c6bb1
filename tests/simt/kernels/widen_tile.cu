// One tile of e4m3 on its way to where the wgmma body of prefill_attention reads it, for the test of that way.
#include "templates/prefill_attention/convert_units.cuh"

extern "C" __global__ void widen_tile(const u8* raw, u8* tile) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize,
            warps = static_cast<int>(blockDim.x) / kWarpSize;
  for (int batch = warp; batch < kTile * kRowUnits / kBatchUnits; batch += warps)
    widen_batch(raw, tile, batch);
}
