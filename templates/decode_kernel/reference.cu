// The plain version of decode_kernel, one element, sum or chunk a thread.
//
// Macros: those of elements.cuh; EXACT (1: every output in f32, sums accumulated in double; 0: each step
// rounded to the element type, sums accumulated in f32).
#include "templates/decode_kernel/elements.cuh"

// a*x + b of element i.
__device__ float affine(const Element* elements, i64 i, float a, float b) {
  const Element x = elements[i];
  if (EXACT) return fmaf(a, Element::to_float(x), b);
  const float product = round_through<Element>(__fmul_rn(a, Element::to_float(x)));
  return round_through<Element>(__fadd_rn(product, b));
}

#if EXACT
using Output = Fp32;
using Sum = double;
#else
using Output = Element;
using Sum = float;
#endif

extern "C" __global__ void decode_kernel_reference(const Element* x, void* out, float a, float b, i64 elements) {
  const i64 first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 stride = i64(gridDim.x) * blockDim.x;
  if constexpr (kWrite == Write::all) {
    for (i64 i = first; i < elements; i += stride) {
      static_cast<Output*>(out)[i] = Output::from_float(affine(x, i, a, b));
    }
  } else if constexpr (kWrite == Write::eightfold) {
    for (i64 i = first; i < elements; i += stride) {
      const i64 begin = i / kChunk * kChunk, size = min_of<i64>(kChunk, elements - begin);
      Output* versions = static_cast<Output*>(out) + kVersions * begin + i - begin;
      for (int k = 0; k < kVersions; ++k) versions[k * size] = Output::from_float(affine(x, i, a, (k + 1) * b));
    }
  } else if constexpr (kWrite == Write::eighth) {
    for (i64 i = first; i < sums_of(elements); i += stride) {
      const i64 begin = i / kEighth * kChunk, end = min_of<i64>(begin + kChunk, elements);
      Sum sum = 0;
      for (i64 k = begin + i % kEighth; k < end; k += kEighth) sum += affine(x, k, a, b);
      static_cast<Output*>(out)[i] = Output::from_float(static_cast<float>(sum));
    }
  } else {
    for (i64 chunk = first; chunk * kChunk < elements; chunk += stride) {
      Sum sum = 0;
      for (i64 i = chunk * kChunk; i < min_of((chunk + 1) * kChunk, elements); ++i) sum += affine(x, i, a, b);
      static_cast<float*>(out)[chunk] = static_cast<float>(sum);
    }
  }
}
