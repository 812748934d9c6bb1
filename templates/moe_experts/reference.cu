// The plain version of moe_experts: each thread computes one column for a tile of places, which share the weights that
// it reads; sums in fp32, in order of K. The baseline rounds what a plain implementation in the elements' type writes
// between its steps; with e4m3, also `between`, in groups as those of x.
//
// Macros: those of shape.cuh; EXACT (1: nothing is rounded, the output is f32); TILE (places of a thread).
#include "templates/common/mxfp4.cuh"
#include "templates/common/quantize.cuh"
#include "templates/common/vectors.cuh"
#include "templates/moe_experts/shape.cuh"

#if EXACT
using Out = float;
#else
using Out = Element;
#endif
#if HAS_DOWN
using UpOut = float;  // scratch
#else
using UpOut = Out;
#endif
#if HAS_UP
using DownIn = float;
#else
using DownIn = Operand;
#endif
#if OUT_PLACES
using DownOut = Out;
#else
using DownOut = float;  // scratch
#endif

namespace {

__device__ void write(float* out, float sum) { *out = sum; }
__device__ void write(Element* out, float sum) { *out = Element::from_float(sum); }

__device__ float rounded(float value) { return EXACT ? value : round_through<Element>(value); }

// The expert whose segment holds the place, which belongs to a slot.
__device__ int expert_of(const int* offsets, int place) {
  int expert = 0;
  for (int step = 512; step > 0; step /= 2) {
    if (expert + step < kExperts && offsets[expert + step] <= place) expert += step;
  }
  return expert;
}

// Whether a place has a row: those of padding have one if it may be read.
__device__ bool has_row(const int* sorted, const int* offsets, int place, int tokens) {
  return kOfPlaces || kToPlaces ? place < offsets[kExperts] : token_of(sorted[place], tokens) >= 0;
}

__device__ void widen(const Element* from, float (&values)[8]) {
  const auto vector = load_vector<16>(from);
  for (int w = 0; w < 4; ++w) Element::unpack(vector.words[w], values[2 * w], values[2 * w + 1]);
}

__device__ void widen(const E4m3* from, float (&values)[8]) {
  const auto vector = load_vector<8>(from);
  for (int w = 0; w < 4; ++w)
    Fp16::unpack(widen_e4m3x2(vector.words[w / 2] >> w % 2 * 16), values[2 * w], values[2 * w + 1]);
}

// Weights of a product with so many matrices (gate and up, or one), columns and values of K.
template <int kMatrices, int kWidth, int kDepth>
struct Weights {
  const void* values;
  i64 row, expert;
  const void* scales;
  const Element* biases;

  // 8 of K from `k` on, times their scale.
  __device__ void load(int of_expert, int matrix, int column, int k, float (&loaded)[8]) const {
    if constexpr (kPacked) {
      for (int i = 0; i < 8; ++i) loaded[i] = packed(of_expert, matrix, column, k + i);
    } else if constexpr (kNMajor) {
      const int index = kBiased ? kMatrices * column + matrix : matrix * kWidth + column;
      const Element* const own = static_cast<const Element*>(values) + of_expert * expert + index;
      for (int i = 0; i < 8; ++i) loaded[i] = Element::to_float(own[(k + i) * row]);
    } else {
      const int index = kBiased ? kMatrices * column + matrix : matrix * kWidth + column;
      widen(static_cast<const Operand*>(values) + of_expert * expert + index * row + k, loaded);
      if constexpr (kNarrow) {
        const i64 block = (i64(of_expert) * kMatrices * kWidth + index) / kScaleGroup;
        const float scale = static_cast<const float*>(scales)[block * (kDepth / kScaleGroup) + k / kScaleGroup];
        for (int i = 0; i < 8; ++i) loaded[i] *= scale;
      }
    }
  }

  __device__ float bias(int of_expert, int matrix, int column) const {
    return kBiased ? Element::to_float(biases[(i64(of_expert) * kWidth + column) * kMatrices + matrix]) : 0.0f;
  }

 private:
  // One value, as common/mxfp4.cuh has them.
  __device__ float packed(int of_expert, int matrix, int column, int k) const {
    constexpr int kBits[4][4] = {{15, 8, 7, 6}, {18, 11, 10, 9}, {21, 14, 13, 12}, {3, 1, 0, 4}};
    constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    constexpr int kStrips = kMatrices * kWidth / kPackedRows, kBlocks = ceil_div(kDepth, kPackedDepth);
    const int strip = kMatrices * column / kPackedRows;
    const int half = kMatrices == 2 ? matrix : column / 8 % 2, own = column % 8;  // of a block's rows
    const i64 block = (i64(of_expert) * kStrips + strip) * kBlocks + k / kPackedDepth;
    const int lane = 4 * own + k % 8 / 2, pair = half + k / 8 % 2 * 2;
    const u32 word =
        static_cast<const u32*>(values)[(block * kPackedValueBytes + 16 * lane) / 4 + k % kPackedDepth / 16];
    int code = 0;
    for (int i = 0; i < 4; ++i) code = 2 * code + (word >> (kBits[pair][i] + k % 2 * 16) % 32 & 1);
    const int exponent =
        static_cast<const u8*>(scales)[block * kPackedScaleBytes + 4 * own + k % kPackedDepth / 32 * 2 + half];
    const float magnitude = ldexpf(kValues[code % 8], exponent - 253);
    return code < 8 ? magnitude : -magnitude;
  }
};

// Rows of x, times their scales.
struct Rows {
  const Operand* values;
  i64 stride;
  const float* scales;
  int width;

  __device__ void load(i64 row, int k, float (&loaded)[8]) const {
    widen(values + row * stride + k, loaded);
    const float scale = kNarrow ? scales[row * (width / kScaleGroup) + k / kScaleGroup] : 1.0f;
    for (int i = 0; i < 8; ++i) loaded[i] *= scale;
  }
};

// What lies between the products.
struct BetweenRows {
  const float* values;

  __device__ void load(i64 row, int k, float (&loaded)[8]) const {
    for (int i = 0; i < 8; ++i) loaded[i] = values[row * kIntermediate + k + i];
  }
};

__device__ BetweenRows down_rows(const float* between, const float*) { return {between}; }
__device__ Rows down_rows(const Operand* x, const float* scales) { return {x, kIntermediate, scales, kIntermediate}; }

// Calls body(expert, place, count) for each expert with places in a tile: its `count` places there from `place` on.
template <typename Body>
__device__ void for_each_expert(const int* offsets, i64 tile, int places, const Body& body) {
  const int end = min_of(min_of(int(tile + 1) * TILE, places), offsets[kExperts]);
  for (int place = int(tile) * TILE; place < end;) {
    const int expert = expert_of(offsets, place), count = min_of(end, offsets[expert + 1]) - place;
    body(expert, place, count);
    place += count;
  }
}

// Products of one expert's column, of each matrix, and the rows with these numbers; a negative one has none.
template <int kMatrices, int kWidth, int kDepth, typename From>
__device__ void multiply(const Weights<kMatrices, kWidth, kDepth>& of, int expert, int column, const From& rows,
                         const int (&numbers)[TILE], float (&sums)[kMatrices][TILE]) {
  for (int k = 0; k < kDepth; k += 8) {
    float weights[kMatrices][8];
    for (int m = 0; m < kMatrices; ++m) of.load(expert, m, column, k, weights[m]);
#pragma unroll
    for (int r = 0; r < TILE; ++r) {
      float values[8];
      if (numbers[r] < 0) continue;
      rows.load(numbers[r], k, values);
      for (int m = 0; m < kMatrices; ++m)
        for (int i = 0; i < 8; ++i) sums[m][r] = __fmaf_rn(values[i], weights[m][i], sums[m][r]);
    }
  }
}

}  // namespace

#if HAS_UP

// between [places, INTERMEDIATE], f32 as scratch; places without a row are not written.
extern "C" __global__ void moe_experts_reference_up(const Operand* x, i64 x_row, const float* x_scale,
                                                    const int* sorted, const int* offsets, const void* weights,
                                                    i64 weight_row, i64 weight_expert, const void* scales,
                                                    const Element* biases, UpOut* between, int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int column = int(index % kIntermediate);
  const Rows rows{x, x_row, x_scale, kHidden};
  const Weights<2, kIntermediate, kHidden> of{weights, weight_row, weight_expert, scales, biases};
  for_each_expert(offsets, index / kIntermediate, places, [&](int expert, int place, int count) {
    int numbers[TILE];
    for (int r = 0; r < TILE; ++r)
      numbers[r] = r >= count ? -1 : kOfPlaces ? place + r : token_of(sorted[place + r], tokens);
    float sums[2][TILE] = {};
    multiply(of, expert, column, rows, numbers, sums);
#pragma unroll
    for (int r = 0; r < TILE; ++r) {
      if (r >= count || !has_row(sorted, offsets, place + r, tokens)) continue;
      const float gate = rounded(sums[0][r] + of.bias(expert, 0, column));
      const float up = rounded(sums[1][r] + of.bias(expert, 1, column));
      write(between + i64(place + r) * kIntermediate + column, rounded(gated(gate, up)));
    }
  });
}

// Of the baseline in e4m3: a thread a group.
extern "C" __global__ void moe_experts_reference_quantize(float* between, const int* sorted, const int* offsets,
                                                          int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  constexpr int kGroups = ceil_div(kIntermediate, kScaleGroup);
  if (index >= i64(places) * kGroups || !has_row(sorted, offsets, int(index / kGroups), tokens)) return;
  float* const values = between + index * kScaleGroup;
  float largest = 0;
  for (int i = 0; i < kScaleGroup; ++i) largest = fmaxf(largest, fabsf(values[i]));
  const float scale = scale_of(largest);
  for (int i = 0; i < kScaleGroup; ++i)
    values[i] =
        scale * Fp16::to_float({static_cast<u16>(widen_e4m3x2(quantize_pair(values[i], 0.0f, inverse_of(scale))))});
}

#endif

#if HAS_DOWN

// Rows of places: the output, or f32 as scratch.
extern "C" __global__ void moe_experts_reference_down(const DownIn* rows, const float* row_scale, const int* offsets,
                                                      const void* weights, i64 weight_row, i64 weight_expert,
                                                      const void* scales, const Element* biases, DownOut* products,
                                                      i64 product_row, const int* sorted, int tokens, int places) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int column = int(index % kHidden);
  const Weights<1, kHidden, kIntermediate> of{weights, weight_row, weight_expert, scales, biases};
  for_each_expert(offsets, index / kHidden, places, [&](int expert, int place, int count) {
    int numbers[TILE];
    for (int r = 0; r < TILE; ++r)
      numbers[r] = r < count && has_row(sorted, offsets, place + r, tokens) ? place + r : -1;
    float sums[1][TILE] = {};
    multiply(of, expert, column, down_rows(rows, row_scale), numbers, sums);
#pragma unroll
    for (int r = 0; r < TILE; ++r) {
      if (numbers[r] >= 0)
        write(products + (place + r) * product_row + column, rounded(sums[0][r] + of.bias(expert, 0, column)));
    }
  });
}

extern "C" __global__ void moe_experts_reference_combine(const float* products, const int* inverse, const float* shares,
                                                         Out* out, i64 out_row, int tokens) {
  const i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 token = index / kHidden;
  const int column = int(index % kHidden);
  if (token >= tokens) return;
  float sum = 0;
  for (i64 slot = token * kTopK; slot < (token + 1) * kTopK; ++slot) {
    if (inverse[slot] >= 0) sum = rounded(add_row(shares[slot], products[i64(inverse[slot]) * kHidden + column], sum));
  }
  write(out + token * out_row + column, sum);
}

#endif
