// The plain version of add_rmsnorm: a block takes a row.
//
// Macros: HIDDEN, RESIDUAL, PLUS_ONE, NARROW, TOKEN_SCALE, STATIC_SCALE, Element; EXACT (1: sums in double, values in
// f32 that are not rounded to e4m3; 0: sums in float, and what becomes e4m3 is rounded to the inputs' type first, as
// where the norm and the quantization are two kernels).
#include "templates/common/quantize.cuh"
#include "templates/common/types.cuh"

#if EXACT
using Sum = double;
using Out = float;
using SumOut = float;
#else
using Sum = float;
using Out = void;
using SumOut = Element;
#endif

constexpr int kThreads = 128, kGroup = 128, kGroups = ceil_div(HIDDEN, kGroup);

// A row of the inputs, and the factor that normalizes it.
struct Row {
  const Element *x, *residual, *weight;
  float factor;

  __device__ Element h(int column) const {
    if (!RESIDUAL) return x[column];
    return Element::from_float(Element::to_float(x[column]) + Element::to_float(residual[column]));
  }
  __device__ float value(int column) const {
    const float weights = Element::to_float(weight[column]) + (PLUS_ONE ? 1.0f : 0.0f);
    const float value = Element::to_float(h(column)) * weights * factor;
    return NARROW && !EXACT ? round_through<Element>(value) : value;
  }
};

__device__ float largest_in(const Row& row, int begin, int end) {
  float largest = 0;
  for (int c = begin; c < end; ++c) largest = fmaxf(largest, fabsf(row.value(c)));
  return largest;
}

__device__ void write(Out* out, i64 index, float value, float scale) {
#if EXACT
  const float narrow = value / scale;
  out[index] = !NARROW ? value : narrow > 448 ? 448 : narrow < -448 ? -448 : narrow;
#else
  if (NARROW) {
    static_cast<u8*>(out)[index] = u8(quantize_pair(value, 0.0f, inverse_of(scale)));
  } else {
    static_cast<Element*>(out)[index] = Element::from_float(value);
  }
#endif
}

__device__ void write_sum(SumOut* out, i64 index, Element value) {
#if EXACT
  out[index] = Element::to_float(value);
#else
  out[index] = value;
#endif
}

extern "C" __global__ void add_rmsnorm_reference(const Element* x, const Element* residual, const Element* weight,
                                                 Out* out, float* scales, SumOut* residual_out,
                                                 const float* static_scale, i64 x_row, i64 residual_row, i64 out_row,
                                                 i64 residual_out_row, float eps) {
  __shared__ Sum sums[kThreads];
  __shared__ float maxima[kThreads];
  const i64 token = blockIdx.x;
  Row row{x + token * x_row, RESIDUAL ? residual + token * residual_row : nullptr, weight, 0};
  Sum own = 0;
  for (int c = threadIdx.x; c < HIDDEN; c += kThreads) {
    const Element h = row.h(c);
    const Sum value = Element::to_float(h);
    own += value * value;
    if (RESIDUAL) write_sum(residual_out, token * residual_out_row + c, h);
  }
  sums[threadIdx.x] = own;
  __syncthreads();
  Sum squares = 0;
  for (int i = 0; i < kThreads; ++i) squares += sums[i];
  row.factor = float(1.0f / sqrtf(float(squares / HIDDEN) + eps));

  float scale = STATIC_SCALE ? static_scale[0] : 1;
  if (NARROW && TOKEN_SCALE) {
    float largest = 0;
    for (int g = threadIdx.x; g < kGroups; g += kThreads)
      largest = fmaxf(largest, largest_in(row, g * kGroup, min_of((g + 1) * kGroup, HIDDEN)));
    maxima[threadIdx.x] = largest;
    __syncthreads();
    for (int i = 0; i < kThreads; ++i) largest = fmaxf(largest, maxima[i]);
    scale = scale_of(largest);
    if (threadIdx.x == 0) scales[token] = scale;
  }
  for (int g = threadIdx.x; g < kGroups; g += kThreads) {
    const int begin = g * kGroup, end = min_of(begin + kGroup, HIDDEN);
    if (NARROW && !TOKEN_SCALE && !STATIC_SCALE) {
      scale = scale_of(largest_in(row, begin, end));
      scales[token * kGroups + g] = scale;
    }
    for (int c = begin; c < end; ++c) write(out, token * out_row + c, row.value(c), scale);
  }
}
