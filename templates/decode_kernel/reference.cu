// The plain version of decode_kernel, one element or one chunk a thread.
//
// Macros: those of elements.cuh; EXACT (1: every output in f32, sums accumulated in double; 0: each step
// rounded to the element type, sums accumulated in f32).
#include "templates/decode_kernel/elements.cuh"

__device__ float affine(Element x, float a, float b) {
  if (EXACT) return fmaf(a, Element::to_float(x), b);
  const float product = round_through<Element>(__fmul_rn(a, Element::to_float(x)));
  return round_through<Element>(__fadd_rn(product, b));
}

#if EXACT
using Output = F32;
using Sum = double;
#else
using Output = Element;
using Sum = float;
#endif

extern "C" __global__ void decode_kernel_reference(const Element* x, void* out, float a, float b,
                                                   i64 elements) {
  const i64 first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 stride = i64(gridDim.x) * blockDim.x;
  if constexpr (kWriteAll) {
    for (i64 i = first; i < elements; i += stride) {
      static_cast<Output*>(out)[i] = Output::from_float(affine(x[i], a, b));
    }
  } else {
    for (i64 chunk = first; chunk * kChunk < elements; chunk += stride) {
      Sum sum = 0;
      for (i64 i = chunk * kChunk; i < min_of((chunk + 1) * kChunk, elements); ++i) sum += affine(x[i], a, b);
      static_cast<float*>(out)[chunk] = static_cast<float>(sum);
    }
  }
}
