// What the kernel and its reference agree on: element types, and what is written.
//
// Macros: DTYPE (Fp32, Bf16 or Fp16), WRITE (a Write).
#pragma once

#include "templates/common/convert.cuh"
#include "templates/common/types.cuh"

using Element = DTYPE;
constexpr int kChunk = 1024;  // elements; kernel.json has it too

// The outputs that are written of y = a*x + b.
enum class Write {
  all,        // y
  none,       // an f32 sum of y for every chunk
  eighth,     // for every chunk kEighth sums, of the elements that are equal modulo kEighth
  eightfold,  // for every chunk eight versions of it, one behind the other: the k-th is y + k*b
};
constexpr Write kWrite = Write::WRITE;
constexpr int kEighth = kChunk / 8, kVersions = 8;

// Sums of `elements` elements that begin at a chunk, with write=eighth.
__device__ __forceinline__ i64 sums_of(i64 elements) {
  return elements / kChunk * kEighth + min_of<i64>(elements % kChunk, kEighth);
}
