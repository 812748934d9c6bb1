// What templates/common/convert.cuh makes of floats and of every 16-bit and 8-bit number, for the emulator's own tests.
#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

extern "C" __global__ void conversions(const float* in, Bf16* bf16, Fp16* fp16, float* back, u16* e4m3, i32 elements) {
  const i32 first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  for (i32 i = first; i < elements; i += stride) {
    bf16[i] = Bf16::from_float(in[i]);
    fp16[i] = Fp16::from_float(in[i]);
  }
  for (i32 i = first; i < 65536; i += stride) {
    back[i] = Bf16::to_float({static_cast<u16>(i)});
    back[65536 + i] = Fp16::to_float({static_cast<u16>(i)});
  }
  if (first >= 256) return;
  e4m3[first] = static_cast<u16>(widen_e4m3x2(first));
}
