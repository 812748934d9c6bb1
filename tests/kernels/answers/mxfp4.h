// Values of packed mxfp4 on the host, written down once more from what templates/common/mxfp4.cuh says of their bits.
//
// Pure functions; thread-safe.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "base/integers.h"

namespace moetune {

// Where a value of [experts][matrices][width][depth] lies; rows of two matrices take turns, eight of each.
struct PackedPlace {
  std::int64_t half_word;  // of all values, 16 bits each
  int pair;                // which of the four values of a half word
  std::int64_t scale;      // byte of all scales
};

inline PackedPlace packed_place(std::int64_t matrices, std::int64_t width, std::int64_t depth,
                                std::int64_t expert, std::int64_t matrix, std::int64_t column,
                                std::int64_t k) {
  const std::int64_t row = matrices == 1 ? column : 16 * (column / 8) + 8 * matrix + column % 8;
  const std::int64_t strips = matrices * width / 16, blocks = ceil_div(depth, std::int64_t{64});
  const std::int64_t block = (expert * strips + row / 16) * blocks + k / 64;
  const std::int64_t within = k % 64, step = within / 16, lane = row % 8 * 4 + within % 8 / 2;
  return {block * 256 + lane * 8 + step * 2 + within % 2,
          static_cast<int>(row % 16 / 8 + within % 16 / 8 * 2),
          block * 32 + row % 8 * 4 + within / 32 * 2 + row % 16 / 8};
}

inline double packed_value(std::uint16_t half_word, int pair, std::uint8_t scale) {
  static constexpr std::array<std::array<int, 4>, 4> kBits = {
      {{15, 8, 7, 6}, {12, 5, 4, 3}, {9, 2, 1, 0}, {14, 13, 11, 10}}};
  static constexpr std::array<double, 8> kMagnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const std::array<int, 4>& bits = kBits[static_cast<std::size_t>(pair)];
  std::size_t code = 0;
  for (std::size_t i = 1; i < 4; ++i) code = 2 * code + (half_word >> bits[i] & 1);
  const double magnitude = std::ldexp(kMagnitudes[code], scale - 253);
  return (half_word >> bits[0] & 1) != 0 ? -magnitude : magnitude;
}

}  // namespace moetune
