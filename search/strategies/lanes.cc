#include "search/strategies/lanes.h"

#include <cstring>

namespace moetune {
namespace {

using Floats4 = float __attribute__((vector_size(16)));
using Floats8 = float __attribute__((vector_size(32)));

template <typename Floats>
struct Lane {
  static constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
  Floats floats;

  Lane() = default;
  [[gnu::always_inline]] explicit Lane(const float* from) { std::memcpy(&floats, from, sizeof floats); }
  [[gnu::always_inline]] void store(float* to) const { std::memcpy(to, &floats, sizeof floats); }
};

template <typename Floats>
[[gnu::always_inline]] inline void add_scaled_in(float* y, const float* x, float a, std::size_t n) {
  using Lane = Lane<Floats>;
  std::size_t i = 0;
  for (; i + Lane::kFloats <= n; i += Lane::kFloats) {
    Lane sum(y + i);
    sum.floats += a * Lane(x + i).floats;
    sum.store(y + i);
  }
  for (; i < n; ++i) y[i] += a * x[i];
}

// Blocks of kRows x kLanes lanes, each of which stays in registers for all of x.
template <typename Floats, std::size_t kRows, std::size_t kLanes>
[[gnu::always_inline]] inline void subtract_products_in(float* const* y,
                                                        const std::vector<std::vector<float>>& x,
                                                        const std::vector<float>* a, std::size_t at,
                                                        std::size_t n) {
  using Lane = Lane<Floats>;
  constexpr std::size_t kStep = kLanes * Lane::kFloats;
  const std::size_t count = a[0].size();
  std::size_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    Lane sums[kRows][kLanes];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (std::size_t l = 0; l < kLanes; ++l) sums[r][l] = Lane(y[r] + i + l * Lane::kFloats);
    }
    for (std::size_t j = 0; j < count; ++j) {
      const float* row = x[j].data() + at + i;
      Lane read[kLanes];
#pragma GCC unroll 8
      for (std::size_t l = 0; l < kLanes; ++l) read[l] = Lane(row + l * Lane::kFloats);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        const float weight = a[r][j];
#pragma GCC unroll 8
        for (std::size_t l = 0; l < kLanes; ++l) sums[r][l].floats -= weight * read[l].floats;
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (std::size_t l = 0; l < kLanes; ++l) sums[r][l].store(y[r] + i + l * Lane::kFloats);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t rest = i; rest < n; ++rest) {
      for (std::size_t j = 0; j < count; ++j) y[r][rest] -= a[r][j] * x[j][at + rest];
    }
  }
}

template <typename Floats>
[[gnu::always_inline]] inline void subtract_products_of(std::span<float* const> y,
                                                        const std::vector<std::vector<float>>& x,
                                                        std::span<const std::vector<float>> a, std::size_t at,
                                                        std::size_t n) {
  std::size_t r = 0;
  for (; r + 4 <= y.size(); r += 4) subtract_products_in<Floats, 4, 2>(y.data() + r, x, a.data() + r, at, n);
  for (; r < y.size(); ++r) subtract_products_in<Floats, 1, 4>(y.data() + r, x, a.data() + r, at, n);
}

constexpr std::size_t kInRegisters = 16;  // entries of a table

void multiply_by_entries_plainly(float* y, const float* table, const std::uint16_t* at, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] *= table[at[i]];
}

#if defined(__x86_64__)
const bool kWide = __builtin_cpu_supports("avx2");

__attribute__((target("avx2"))) void add_scaled_wide(float* y, const float* x, float a, std::size_t n) {
  add_scaled_in<Floats8>(y, x, a, n);
}

__attribute__((target("avx2"))) void subtract_products_wide(std::span<float* const> y,
                                                            const std::vector<std::vector<float>>& x,
                                                            std::span<const std::vector<float>> a,
                                                            std::size_t at, std::size_t n) {
  subtract_products_of<Floats8>(y, x, a, at, n);
}

__attribute__((target("avx2"))) void multiply_by_entries_wide(float* y, std::span<const float> table,
                                                              const std::uint16_t* at, std::size_t n) {
  using Shorts8 = std::uint16_t __attribute__((vector_size(16)));
  using Ints8 = std::int32_t __attribute__((vector_size(32)));
  using Lane = Lane<Floats8>;
  float entries[kInRegisters] = {};
  std::memcpy(entries, table.data(), table.size_bytes());
  const Lane low(entries), high(entries + Lane::kFloats);
  const bool short_table = table.size() <= Lane::kFloats;
  std::size_t i = 0;
  for (; i + Lane::kFloats <= n; i += Lane::kFloats) {
    Shorts8 positions;
    std::memcpy(&positions, at + i, sizeof positions);
    const Ints8 index = __builtin_convertvector(positions, Ints8);
    Lane product(y + i);
    product.floats *= short_table ? __builtin_shuffle(low.floats, index)
                                  : __builtin_shuffle(low.floats, high.floats, index);
    product.store(y + i);
  }
  multiply_by_entries_plainly(y + i, table.data(), at + i, n - i);
}
#else
constexpr bool kWide = false;
constexpr auto add_scaled_wide = add_scaled_in<Floats4>;
constexpr auto subtract_products_wide = subtract_products_of<Floats4>;
void multiply_by_entries_wide(float* y, std::span<const float> table, const std::uint16_t* at,
                              std::size_t n) {
  multiply_by_entries_plainly(y, table.data(), at, n);
}
#endif

}  // namespace

void add_scaled(float* y, const float* x, float a, std::size_t n) {
  kWide ? add_scaled_wide(y, x, a, n) : add_scaled_in<Floats4>(y, x, a, n);
}

void subtract_products(std::span<float* const> y, const std::vector<std::vector<float>>& x,
                       std::span<const std::vector<float>> a, std::size_t at, std::size_t n) {
  kWide ? subtract_products_wide(y, x, a, at, n) : subtract_products_of<Floats4>(y, x, a, at, n);
}

void multiply_by_entries(float* y, std::span<const float> table, const std::uint16_t* at, std::size_t n) {
  kWide&& table.size() <= kInRegisters ? multiply_by_entries_wide(y, table, at, n)
                                       : multiply_by_entries_plainly(y, table.data(), at, n);
}

}  // namespace moetune
