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
  std::int64_t word;   // of all values, 32 bits each
  int pair, half;      // which of the word's four pairs, and which value of it
  std::int64_t scale;  // byte of all scales
};

inline PackedPlace packed_place(std::int64_t matrices, std::int64_t width, std::int64_t depth, std::int64_t expert,
                                std::int64_t matrix, std::int64_t column, std::int64_t k) {
  const std::int64_t row = matrices == 1 ? column : 16 * (column / 8) + 8 * matrix + column % 8;
  const std::int64_t strips = matrices * width / 16, blocks = ceil_div(depth, std::int64_t{64});
  const std::int64_t block = (expert * strips + row / 16) * blocks + k / 64;
  const std::int64_t within = k % 64, step = within / 16, lane = row % 8 * 4 + within % 8 / 2;
  return {block * 128 + lane * 4 + step, static_cast<int>(row % 16 / 8 + within % 16 / 8 * 2),
          static_cast<int>(within % 2), block * 32 + row % 8 * 4 + within / 32 * 2 + row % 16 / 8};
}

// `value(i)` is byte i of all values.
template <typename Bytes>
double packed_value(const PackedPlace& place, Bytes value, std::uint8_t scale) {
  static constexpr std::array<std::array<int, 4>, 4> kBits = {
      {{15, 8, 7, 6}, {18, 11, 10, 9}, {21, 14, 13, 12}, {3, 1, 0, 4}}};
  static constexpr std::array<double, 8> kMagnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::size_t code = 0;
  for (const int bit : kBits[static_cast<std::size_t>(place.pair)]) {
    const int at = (bit + 16 * place.half) % 32;
    code = 2 * code + (static_cast<unsigned>(value(4 * place.word + at / 8)) >> at % 8 & 1);
  }
  const double magnitude = std::ldexp(kMagnitudes[code % 8], scale - 253);
  return code < 8 ? magnitude : -magnitude;
}

}  // namespace moetune
