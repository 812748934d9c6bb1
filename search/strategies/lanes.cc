#include "search/strategies/lanes.h"

#include <cstring>

namespace moetune {
namespace {

using Floats4 = float __attribute__((vector_size(16)));
using Floats8 = float __attribute__((vector_size(32)));
using Floats16 = float __attribute__((vector_size(64)));

// As many positions in a table as there are floats.
template <typename Floats>
struct Lookup {};
template <>
struct Lookup<Floats8> {
  using Positions = std::uint16_t __attribute__((vector_size(16)));
  using Index = std::int32_t __attribute__((vector_size(32)));
};
template <>
struct Lookup<Floats16> {
  using Positions = std::uint16_t __attribute__((vector_size(32)));
  using Index = std::int32_t __attribute__((vector_size(64)));
};

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
[[gnu::always_inline]] inline void subtract_products_in(float* const* y, const std::vector<std::vector<float>>& x,
                                                        const std::vector<float>* a, std::size_t at, std::size_t n) {
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

void multiply_by_entries_scalar(float* y, const float* table, const std::uint16_t* at, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] *= table[at[i]];
}

template <typename Floats>
[[gnu::always_inline]] inline void multiply_by_entries_in(float* y, std::span<const float> table,
                                                          const std::uint16_t* at, std::size_t n) {
  if (table.size() > kInRegisters || n < Lane<Floats>::kFloats) {
    multiply_by_entries_scalar(y, table.data(), at, n);
    return;
  }
  using Lane = Lane<Floats>;
  float entries[2 * kInRegisters] = {};
  std::memcpy(entries, table.data(), table.size_bytes());
  const Lane low(entries), high(entries + Lane::kFloats);
  const bool is_low = table.size() <= Lane::kFloats;
  std::size_t i = 0;
  for (; i + Lane::kFloats <= n; i += Lane::kFloats) {
    typename Lookup<Floats>::Positions positions;
    std::memcpy(&positions, at + i, sizeof positions);
    const auto index = __builtin_convertvector(positions, typename Lookup<Floats>::Index);
    Lane product(y + i);
    product.floats *= is_low ? __builtin_shuffle(low.floats, index) : __builtin_shuffle(low.floats, high.floats, index);
    product.store(y + i);
  }
  multiply_by_entries_scalar(y + i, table.data(), at + i, n - i);
}

// One of each for every width of lanes.
struct Plain {
  static void add_scaled(float* y, const float* x, float a, std::size_t n) { add_scaled_in<Floats4>(y, x, a, n); }
  static void subtract_products(std::span<float* const> y, const std::vector<std::vector<float>>& x,
                                std::span<const std::vector<float>> a, std::size_t at, std::size_t n) {
    subtract_products_of<Floats4>(y, x, a, at, n);
  }
  static void multiply_by_entries(float* y, std::span<const float> table, const std::uint16_t* at, std::size_t n) {
    multiply_by_entries_scalar(y, table.data(), at, n);
  }
};

#if defined(__x86_64__)
#define MOETUNE_LANES(Name, Floats, isa)                                                                              \
  struct Name {                                                                                                       \
    __attribute__((target(isa))) static void add_scaled(float* y, const float* x, float a, std::size_t n) {           \
      add_scaled_in<Floats>(y, x, a, n);                                                                              \
    }                                                                                                                 \
    __attribute__((target(isa))) static void subtract_products(std::span<float* const> y,                             \
                                                               const std::vector<std::vector<float>>& x,              \
                                                               std::span<const std::vector<float>> a, std::size_t at, \
                                                               std::size_t n) {                                       \
      subtract_products_of<Floats>(y, x, a, at, n);                                                                   \
    }                                                                                                                 \
    __attribute__((target(isa))) static void multiply_by_entries(float* y, std::span<const float> table,              \
                                                                 const std::uint16_t* at, std::size_t n) {            \
      multiply_by_entries_in<Floats>(y, table, at, n);                                                                \
    }                                                                                                                 \
  }
MOETUNE_LANES(Avx2, Floats8, "avx2");
MOETUNE_LANES(Avx512, Floats16, "avx512f");
#undef MOETUNE_LANES
#endif

template <typename Width>
constexpr Lanes lanes_of() {
  return {Width::add_scaled, Width::subtract_products, Width::multiply_by_entries};
}

const Lanes& widest() {
  static const Lanes chosen = all_lanes().back();
  return chosen;
}

}  // namespace

std::vector<Lanes> all_lanes() {
  std::vector<Lanes> all = {lanes_of<Plain>()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all.push_back(lanes_of<Avx2>());
  if (__builtin_cpu_supports("avx512f")) all.push_back(lanes_of<Avx512>());
#endif
  return all;
}

void add_scaled(float* y, const float* x, float a, std::size_t n) { widest().add_scaled(y, x, a, n); }

void subtract_products(std::span<float* const> y, const std::vector<std::vector<float>>& x,
                       std::span<const std::vector<float>> a, std::size_t at, std::size_t n) {
  widest().subtract_products(y, x, a, at, n);
}

void multiply_by_entries(float* y, std::span<const float> table, const std::uint16_t* at, std::size_t n) {
  widest().multiply_by_entries(y, table, at, n);
}

}  // namespace moetune
