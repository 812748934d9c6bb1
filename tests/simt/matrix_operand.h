// An operand of wgmma in shared memory, as its descriptor says (PTX ISA, "Matrix descriptor").
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace moetune::testing {

struct MatrixOperand {
  std::uint32_t start = 0, leading = 0, stride = 0;  // bytes
  unsigned swizzle_bytes = 0;
  unsigned element_bytes = 2;
  bool transposed = false;  // neighbours of M or N lie together, not those of K

  // Sets `error` to what is wrong or not supported: "" if nothing is.
  MatrixOperand(std::uint64_t descriptor, unsigned bytes, bool k_strides, std::string& error);

  // The shared address of element `k` of row (M) or column (N) `place`.
  std::uint32_t address(unsigned place, unsigned k) const;
};

}  // namespace moetune::testing
