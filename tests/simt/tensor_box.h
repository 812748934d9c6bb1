// What the copy engine does with a tensor map: which bytes a box has, and where they lie in shared memory.
//
// Pure functions. Throw SimtError for what the driver or the engine refuses, or what is not supported: boxes whose
// innermost rows are not as long as the swizzle is wide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/plan.h"
#include "tests/simt/device/simt_runtime.h"

namespace moetune::testing {

// `base` is the address of the map's first byte.
simt::TensorMap encode_for_simt(const TensorMap& map, const std::uint8_t* base);

std::size_t box_bytes(const simt::TensorMap& map);

// The box at coordinates `at`, innermost first, its rows one after the other; zeros outside the tensor.
std::vector<std::uint8_t> read_box(const simt::TensorMap& map, const int* at);

// Where the byte of shared address `address` lies if rows of 32, 64 or 128 bytes are swizzled: the number of a unit of
// 16 bytes is XORed with that of its 128 bytes. 0: as they are.
inline std::uint32_t swizzled(std::uint32_t address, unsigned swizzle_bytes) {
  return address ^ (address >> 3 & (swizzle_bytes == 0 ? 0 : swizzle_bytes - 16));
}

}  // namespace moetune::testing
