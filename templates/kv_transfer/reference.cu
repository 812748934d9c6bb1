// The plain version of kv_transfer: a thread moves one value.
//
// Macros: those of shape.cuh; EXACT (1: outputs in f32, of what is rounded to the target's type; 0: in that type).
#include "templates/common/quantize.cuh"
#include "templates/kv_transfer/shape.cuh"

__device__ float widened(Bf16 value) { return Bf16::to_float(value); }
__device__ float widened(Fp16 value) { return Fp16::to_float(value); }
__device__ float widened(E4m3 value) {
  if ((value.bits & 0x7f) == 0x7f) return __uint_as_float(0x7fffffffu);
  return Fp16::to_float({u16(widen_e4m3x2(value.bits))});
}

template <typename Element>
struct Narrowed {
  static __device__ Element of(float value) { return Element::from_float(value); }
};
template <>
struct Narrowed<E4m3> {
  static __device__ E4m3 of(float value) { return {u8(narrow_e4m3x2(value, 0.0f))}; }
};

#if EXACT
using Written = float;
#else
using Written = Target;
#endif

__device__ void write(float* to, Target value) { *to = widened(value); }
__device__ void write(Target* to, Target value) { *to = value; }

extern "C" __global__ void kv_transfer_reference(TRANSFER_PARAMETERS(Written)) {
  TRANSFER_ENDS(Written);
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 line = index / kWidth;
  const int column = int(index % kWidth), row = int(line % kRows), plane = int(line / kRows % kPlanes),
            page = int(line / kRows / kPlanes);
  if (page >= pages) return;
  const Source* const source_at = from.page_at(plane, page);
  Written* const target_at = to.page_at(plane, page);
  if (source_at == nullptr || target_at == nullptr) return;
  const Source value = source_at[from.row_at(row) + column];
  Written* const place = target_at + to.row_at(row) + column;
#if SCALES == 0
  write(place, value);
#else
  const float scale = scales[scale_at(plane, row)];
  const float factor = sizeof(Source) == 1 ? scale : inverse_of(scale);
  write(place, Narrowed<Target>::of(__fmul_rn(widened(value), factor)));
#endif
}
