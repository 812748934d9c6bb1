// The two grouped products of a configuration: sizes, stages in shared memory, and what both bodies are given.
//
// Rows and weights come to shared memory in chunks of K: rows of 128 bytes, in the 128-byte swizzle. Of packed weights
// (kPacked) a chunk is a block of 16 rows, eight of gate and the same eight of up. Of weights whose N is contiguous
// (kNMajor) it is blocks of 64 columns, each with a row for every value of K.
//
// Macros beside those of shape.cuh: ROWS and UP_COLUMNS or DOWN_COLUMNS (of a tile), DEPTH (values of K in a stage),
// UP_STAGES, DOWN_STAGES, WARPS (that multiply), RESIDENTS (blocks of an SM), STREAM (1: weights that one tile of rows
// reads leave L2 first), SWAPPED (1: a tile's rows are the columns of instructions), FUSED (1: one launch has both
// products), BETWEEN_GROUP (values of `between` that share a scale), SHARED_UP and SHARED_DOWN (bytes, as the plan
// computes them).
#pragma once

#include "templates/common/mxfp4.cuh"
#include "templates/moe_experts/shape.cuh"

constexpr int kRows = ROWS, kChunkRowBytes = 128, kChunkValues = kChunkRowBytes / kOperandBytes,
              kChunks = DEPTH / kChunkValues;
constexpr int kBlockColumns = 64, kBlockBytes = kChunkValues * kChunkRowBytes;  // of kNMajor
constexpr int kUnitValues = 16 / kOperandBytes;                                 // of a copy by cp.async
constexpr int kTicketBytes = FUSED ? 128 : 0;
constexpr int kLargestBytes = kQuantizes && SWAPPED ? 2 * WARPS * kRows * 4 : 0;  // LargestOfRows
static_assert(DEPTH % kChunkValues == 0 && kRows % 16 == 0, "whole chunks, and strips of 16 rows");
static_assert(!kPacked || kChunkValues == kPackedDepth, "a chunk of rows for each of weights");

// between[place] = gate(x) * up(x) of the place's token.
struct Up {
  static constexpr bool kSorted = !kOfPlaces;           // rows lie wherever their tokens do
  static constexpr bool kGathers = kSorted || kNarrow;  // rows come by cp.async, and their scales from x_scale
  static constexpr int kMatrices = 2;                   // gate and up: columns n and n + INTERMEDIATE of the weights
  static constexpr int kScaled = kScaleGroup;           // values of K that share a scale
  using Out = Between;
  static constexpr int kColumns = UP_COLUMNS, kStages = UP_STAGES, kDepth = kHidden, kWidth = kIntermediate;
  static constexpr int kSharedBytes = SHARED_UP;
};

// products[place] = down(between[place]).
struct Down {
  static constexpr bool kSorted = false, kGathers = kNarrow && !kHasUp;
  static constexpr int kMatrices = 1;
  static constexpr int kScaled = BETWEEN_GROUP;
  using Out = Element;
  static constexpr int kColumns = DOWN_COLUMNS, kStages = DOWN_STAGES, kDepth = kIntermediate, kWidth = kHidden;
  static constexpr int kSharedBytes = SHARED_DOWN;
};

// Shared memory: stages of rows and then weights, the rows' scales of each stage, barriers, tickets, largest
// magnitudes, and the list of tiles.
template <typename Product>
struct Stages {
  static constexpr int kRowChunkBytes = kRows * kChunkRowBytes;
  static constexpr int kPackedStrips = Product::kMatrices * Product::kColumns / kPackedRows;
  static constexpr int kWeightChunkBytes =
      kPacked ? kPackedStrips * kPackedValueBytes : Product::kMatrices * Product::kColumns * kChunkRowBytes;
  static constexpr int kWeightsOffset = kChunks * kRowChunkBytes;
  static constexpr int kBytes = kWeightsOffset + kChunks * kWeightChunkBytes;
  static constexpr int kSteps = ceil_div(Product::kDepth, DEPTH);               // of K
  static constexpr int kDepthBlocks = ceil_div(Product::kDepth, kPackedDepth);  // of packed weights
  static constexpr int kColumnTiles = ceil_div(Product::kWidth, Product::kColumns);
  // Of 32 bytes of K, which an instruction multiplies by: those of a group that shares scales, and groups of a stage.
  static constexpr int kGroupUnits = (kNarrow ? Product::kScaled : DEPTH) * kOperandBytes / 32;
  static constexpr int kGroups = DEPTH * kOperandBytes / 32 / kGroupUnits;
  static constexpr bool kWholeSteps = Product::kDepth % DEPTH == 0;
  // Scales: of packed weights; or of rows, [DEPTH / kScaled][kRows], for which both products have the same room, and
  // which body_mma reads where they are.
  static constexpr int kScaleBytes = kPacked                 ? kChunks * kPackedStrips * kPackedScaleBytes
                                     : kNarrow && BODY_WGMMA ? DEPTH / BETWEEN_GROUP * kRows * 4
                                                             : 0;
  static constexpr int kScalesOffset = Product::kStages * kBytes;
  static constexpr int kBarriersOffset = kScalesOffset + Product::kStages * kScaleBytes,
                       kTicketsOffset = kBarriersOffset + 128;
  static constexpr int kLargestOffset = kTicketsOffset + kTicketBytes;
  static constexpr int kTilesOffset = kLargestOffset + kLargestBytes;
  static_assert(kBytes % 1024 == 0 && Product::kStages >= 2 && Product::kStages <= 8, "stages");
};

static_assert(!kNarrow || (DEPTH % kScaleGroup == 0 && kScaleGroup % BETWEEN_GROUP == 0 &&
                           (Stages<Up>::kWholeSteps || !kHasUp) && (Stages<Down>::kWholeSteps || !kHasDown)),
              "whole groups of values that share a scale");
static_assert(!FUSED || (Stages<Up>::kBytes == Stages<Down>::kBytes && Up::kStages == Down::kStages),
              "both products go through the same stages");

// Columns of gate and up in turn, as in memory: `swigluoai` with kNMajor.
template <typename Product>
constexpr bool kPairs = kNMajor&& kBiased&& Product::kMatrices == 2;

// The place of the scales of a tile's rows, kRows of them, for the group of `between` that begins at `column`.
__device__ __forceinline__ i64 between_scale(int row_of_tiles, int column) {
  return (static_cast<i64>(row_of_tiles) * (kIntermediate / BETWEEN_GROUP) + column / BETWEEN_GROUP) * kRows;
}

// The target of a product's rows, and the biases that are added first.
template <typename Product>
struct Output {
  typename Product::Out* values;  // [places, kWidth]
  float* scales;                  // of `between`: where between_scale says
  const Element* biases;          // [experts, kMatrices * kWidth], those of gate and up in turn

  struct Bias {
    float of[Product::kMatrices];
  };
  __device__ __forceinline__ Bias bias(int expert, int column) const {
    Bias bias = {};
    if constexpr (kBiased) {
      const Element* const own = biases + Product::kMatrices * (static_cast<i64>(expert) * Product::kWidth + column);
      if constexpr (Product::kMatrices == 2) {
        Element::unpack(*reinterpret_cast<const u32*>(own), bias.of[0], bias.of[1]);
      } else {
        bias.of[0] = Element::to_float(*own);
      }
    }
    return bias;
  }
};

// Device memory that a product reads and writes. Strides count elements. Scales are nullptr without any.
template <typename Product>
struct Operands {
  const Operand* rows;  // x or `between`
  i64 row_stride;
  const float* scales;            // of x: [rows, kDepth / kScaleGroup]; of `between`: where between_scale says
  const int* sorted;              // [places]: slots
  const Operand* weights;         // [experts, kMatrices * kWidth, kDepth], the last two the other way round, or packed
  i64 weight_row, weight_expert;  // of kNMajor a row is one of K
  const void* weight_scales;      // f32 [experts, kMatrices * kWidth / kScaleGroup, kDepth / kScaleGroup], or packed
  Output<Product> out;
  int tokens;

  // The row of a place; -1 of padding.
  __device__ __forceinline__ int row_of(int place) const {
    return Product::kSorted ? token_of(sorted[place], tokens) : place;
  }
};
