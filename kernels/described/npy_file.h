// Arrays that a program wrote: with NumPy (.npy, versions 1 to 3), or as bare elements.
// Stateless. All errors are BadInput and name the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kernels/dtype.h"

namespace moetune {

inline constexpr std::int64_t kMostArrayBytes = 1'000'000'000;  // of all arrays of a kernel

// The elements as they lie in memory: little-endian, in C order. Throws unless the file holds just `elements` elements,
// in any shape, of the NumPy type of `type`: f4, f2, i4 or u4, i8 or u8, u1, i1 or b1; bf16 lies in u2, e4m3 in u1.
std::vector<std::uint8_t> read_npy(const std::filesystem::path& file, DType type, std::int64_t elements);

// The same of any file: one that is no .npy holds the elements and nothing else.
std::vector<std::uint8_t> read_array(const std::filesystem::path& file, DType type, std::int64_t elements);

}  // namespace moetune
