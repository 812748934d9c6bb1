// The plain version of moe_dispatch: a thread for the values of a place that share a scale, or for 128 of them.
//
// Macros: those of shape.cuh; EXACT (1: rows in f32).
#include "templates/moe_dispatch/shape.cuh"

namespace {

#if EXACT
using Out = float;
#else
using Out = u8;
#endif

__device__ void write(Out* rows, i64 index, u32 bits) {
#if EXACT
  rows[index] =
      kNarrow ? Fp16::to_float({static_cast<u16>(widen_e4m3x2(bits))}) : Bf16::to_float({static_cast<u16>(bits)});
#else
  if (kNarrow) {
    rows[index] = u8(bits);
  } else {
    reinterpret_cast<u16*>(rows)[index] = u16(bits);
  }
#endif
}

}  // namespace

extern "C" __global__ void moe_dispatch_reference(const Bf16* x, const int* sorted, Out* rows, float* scales, i64 x_row,
                                                  int tokens, int places) {
  const i64 thread = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 place = thread / kGroups;
  const int group = int(thread % kGroups), first = group * kGroup, end = min_of(first + kGroup, kHidden);
  if (thread == 0 && kNarrow && kByColumns && kZeroPadding) {
    for (i64 p = places; p < padded_places(places); ++p) {
      for (int g = 0; g < kGroups; ++g) scales[scale_index(p, g, places)] = 1.0f;
    }
  }
  if (place >= places) return;
  const u32 slot = sorted[place];
  const bool present = slot < u32(tokens * kTopK);
  if (!present && !kZeroPadding) return;
  const Bf16* const row = x + (present ? slot / kTopK : 0) * x_row;
  float largest = 0, scale = 1;
  for (int c = first; c < end && kNarrow && present; ++c) largest = fmaxf(largest, fabsf(Bf16::to_float(row[c])));
  scale = scale_of(largest);
  for (int c = first; c < end; ++c) {
    const float value = present ? Bf16::to_float(row[c]) : 0.0f;
    const u32 bits = kNarrow ? quantize_pair(value, 0.0f, inverse_of(scale)) & 0xff : present ? row[c].bits : 0;
    write(rows, place * kHidden + c, bits);
  }
  if (kNarrow) scales[scale_index(place, group, places)] = scale;
}
