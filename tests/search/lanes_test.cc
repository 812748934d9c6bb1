#include "search/strategies/lanes.h"

#include <doctest/doctest.h>

#include "search/random.h"

using namespace moetune;

namespace {

std::vector<float> drawn(std::size_t n, Random& random) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(2 * random.unit() - 1);
  return values;
}

}  // namespace

TEST_CASE("sums over lanes of any width are bit for bit those of one element after the other") {
  Random random(7);
  for (const std::size_t rows : {1, 2, 3, 4, 5, 8, 11}) {
    for (const std::size_t n : {0, 1, 7, 8, 16, 31, 64, 77}) {
      const std::size_t at = random.below(5), count = random.below(9);
      std::vector<std::vector<float>> x(count + random.below(3)), a(rows), y(rows);
      for (auto& row : x) row = drawn(at + n, random);
      for (auto& weights : a) weights = drawn(count, random);
      for (auto& row : y) row = drawn(n, random);
      std::vector<std::vector<float>> expected = y;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t j = 0; j < count; ++j) {
          for (std::size_t i = 0; i < n; ++i) {
            const volatile float product = a[r][j] * x[j][at + i];  // never fused with the difference
            expected[r][i] -= product;
          }
        }
      }
      for (const Lanes& lanes : all_lanes()) {
        std::vector<std::vector<float>> difference = y;
        std::vector<float*> pointers;
        for (auto& row : difference) pointers.push_back(row.data());
        lanes.subtract_products(pointers, x, a, at, n);
        CAPTURE(rows);
        CAPTURE(n);
        CHECK(difference == expected);

        std::vector<float> sum = y[0];
        lanes.add_scaled(sum.data(), expected[0].data(), 0.3f, n);
        for (std::size_t i = 0; i < n; ++i) {
          const volatile float product = 0.3f * expected[0][i];
          CHECK(sum[i] == y[0][i] + product);
        }
      }
    }
  }
}

TEST_CASE("multiplying by the entries of a table is bit for bit what one element after the other gives") {
  Random random(8);
  for (const std::size_t entries : {0, 1, 2, 7, 8, 9, 14, 16, 17, 40}) {
    const std::vector<float> table = drawn(entries, random);
    for (const std::size_t n : {0, 1, 7, 8, 9, 31, 64, 77}) {
      if (entries == 0 && n > 0) continue;
      std::vector<std::uint16_t> at(n);
      for (std::uint16_t& position : at) position = static_cast<std::uint16_t>(random.below(entries));
      const std::vector<float> y = drawn(n, random);
      std::vector<float> expected = y;
      for (std::size_t i = 0; i < n; ++i) expected[i] *= table[at[i]];
      for (const Lanes& lanes : all_lanes()) {
        std::vector<float> product = y;
        lanes.multiply_by_entries(product.data(), table, at.data(), n);
        CAPTURE(entries);
        CAPTURE(n);
        CHECK(product == expected);
      }
    }
  }
}
