#include "search/strategies/posterior.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "search/strategies/cholesky.h"

namespace moetune {
namespace {

constexpr double kJitter = 1e-6;
constexpr float kLeastVariance = 1e-6f;
constexpr std::size_t kTile = 512;  // pool members solved together: their columns stay in the cache

// Several at a time, element by element and without fused multiplications: the same sums on every machine, at
// any optimization level and lane width.
using Floats4 = float __attribute__((vector_size(16)));
using Floats8 = float __attribute__((vector_size(32)));

template <typename Floats>
struct Lane {
  static constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
  Floats floats;

  [[gnu::always_inline]] explicit Lane(const float* from) { std::memcpy(&floats, from, sizeof floats); }
  [[gnu::always_inline]] void store(float* to) const { std::memcpy(to, &floats, sizeof floats); }
};

// y += a * x
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

// y[0..n) -= sum over j of a[j] * x[j][at..at+n), a block of y at a time, which stays in registers.
template <typename Floats>
[[gnu::always_inline]] inline void subtract_products_in(float* y, const std::vector<std::vector<float>>& x,
                                                        const std::vector<float>& a, std::size_t at,
                                                        std::size_t n) {
  using Lane = Lane<Floats>;
  constexpr std::size_t kStep = Lane::kFloats;
  std::size_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    Lane sum0(y + i), sum1(y + i + kStep), sum2(y + i + 2 * kStep), sum3(y + i + 3 * kStep);
    for (std::size_t j = 0; j < a.size(); ++j) {
      const float* row = x[j].data() + at + i;
      sum0.floats -= a[j] * Lane(row).floats;
      sum1.floats -= a[j] * Lane(row + kStep).floats;
      sum2.floats -= a[j] * Lane(row + 2 * kStep).floats;
      sum3.floats -= a[j] * Lane(row + 3 * kStep).floats;
    }
    sum0.store(y + i);
    sum1.store(y + i + kStep);
    sum2.store(y + i + 2 * kStep);
    sum3.store(y + i + 3 * kStep);
  }
  for (; i < n; ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) y[i] -= a[j] * x[j][at + i];
  }
}

#if defined(__x86_64__)
const bool kWide = __builtin_cpu_supports("avx2");

__attribute__((target("avx2"))) void add_scaled_wide(float* y, const float* x, float a, std::size_t n) {
  add_scaled_in<Floats8>(y, x, a, n);
}

__attribute__((target("avx2"))) void subtract_products_wide(float* y,
                                                            const std::vector<std::vector<float>>& x,
                                                            const std::vector<float>& a, std::size_t at,
                                                            std::size_t n) {
  subtract_products_in<Floats8>(y, x, a, at, n);
}
#else
constexpr bool kWide = false;
constexpr auto add_scaled_wide = add_scaled_in<Floats4>;
constexpr auto subtract_products_wide = subtract_products_in<Floats4>;
#endif

void add_scaled(float* y, const float* x, float a, std::size_t n) {
  kWide ? add_scaled_wide(y, x, a, n) : add_scaled_in<Floats4>(y, x, a, n);
}

void subtract_products(float* y, const std::vector<std::vector<float>>& x, const std::vector<float>& a,
                       std::size_t at, std::size_t n) {
  kWide ? subtract_products_wide(y, x, a, at, n) : subtract_products_in<Floats4>(y, x, a, at, n);
}

}  // namespace

Posterior::Posterior(const ProductKernel& kernel, const std::vector<Position>& pool)
    : kernel_(kernel), columns_(kernel.axis_count()) {
  append_columns(pool);
}

void Posterior::append_columns(const std::vector<Position>& rows) {
  const std::size_t axes = kernel_.axis_count();
  if (axes == 0) return;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    for (std::size_t at = axis; at < rows.size(); at += axes) columns_[axis].push_back(rows[at]);
  }
  count_ += rows.size() / axes;
  mean_.resize(count_, 0);
  variance_.resize(count_, 1);
}

std::size_t Posterior::add_members(const std::vector<Position>& rows) {
  const std::size_t first = count_;
  append_columns(rows);
  for (std::vector<float>& solved : solved_) solved.resize(count_, 1.0f);
  for (std::size_t begin = first; begin < count_; begin += kTile)
    solve_over_pool(0, begin, std::min(begin + kTile, count_));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto weight = static_cast<float>(whitened_[i]);
    add_scaled(mean_.data() + first, solved_[i].data() + first, weight, count_ - first);
  }
  return first;
}

std::size_t Posterior::add_open(const std::vector<Position>& rows) {
  const std::size_t first = values_.size();
  const std::size_t total = first + rows.size() / std::max<std::size_t>(kernel_.axis_count(), 1);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  values_.resize(total, std::numeric_limits<double>::quiet_NaN());
  whitened_.resize(total, 0);
  for (std::size_t i = first; i < total; ++i) {
    extend_factor(i);
    solved_.emplace_back(count_, 1.0f);
  }
  for (std::size_t begin = 0; begin < count_; begin += kTile) {
    solve_over_pool(first, begin, std::min(begin + kTile, count_));
  }
  return first;
}

void Posterior::extend_factor(std::size_t observation) {
  std::vector<double>& line = factor_.emplace_back(observation + 1);
  for (std::size_t j = 0; j < observation; ++j) {
    line[j] = (kernel_(row(observation), row(j)) - dot(line.data(), factor_[j].data(), j)) / factor_[j][j];
  }
  const double rest = 1 + kernel_.noise() + kJitter - dot(line.data(), line.data(), observation);
  line[observation] = std::sqrt(std::max(rest, kJitter));
}

void Posterior::solve_over_pool(std::size_t first, std::size_t begin, std::size_t end) {
  const std::size_t size = end - begin;
  for (std::size_t i = first; i < values_.size(); ++i) {
    float* solved = solved_[i].data() + begin;
    for (std::size_t axis = 0; axis < kernel_.axis_count(); ++axis) {
      const float* table = kernel_.tables()[axis].row(row(i)[axis]);
      const Position* column = columns_[axis].data() + begin;
      for (std::size_t k = 0; k < size; ++k) solved[k] *= table[column[k]];
    }
    const std::vector<float> weights(factor_[i].begin(), factor_[i].end() - 1);
    subtract_products(solved, solved_, weights, begin, size);
    const auto scale = static_cast<float>(1 / factor_[i][i]);
    float* variance = variance_.data() + begin;
    for (std::size_t k = 0; k < size; ++k) {
      solved[k] *= scale;
      variance[k] -= solved[k] * solved[k];
    }
  }
}

void Posterior::set_value(std::size_t observation, double value) {
  values_[observation] = value;
  for (std::size_t i = observation; i < values_.size(); ++i) {
    if (std::isnan(values_[i])) continue;
    const double whitened = (values_[i] - dot(factor_[i].data(), whitened_.data(), i)) / factor_[i][i];
    const double change = whitened - whitened_[i];
    whitened_[i] = whitened;
    if (change != 0) add_scaled(mean_.data(), solved_[i].data(), static_cast<float>(change), count_);
  }
  update_signal();
}

void Posterior::update_signal() {
  double sum = 0;
  double known = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (std::isnan(values_[i])) continue;
    sum += whitened_[i] * whitened_[i];
    ++known;
  }
  signal_ = std::max(sum / std::max(known, 1.0), 1e-12);
}

double Posterior::deviation(std::size_t i) const {
  return std::sqrt(signal_ * static_cast<double>(std::max(variance_[i], kLeastVariance)));
}

double Posterior::covariance(std::size_t i, std::size_t j) const {
  if (i == j) return deviation(i) * deviation(i);
  double product = 1;
  for (std::size_t axis = 0; axis < kernel_.axis_count(); ++axis) {
    product *= kernel_.tables()[axis].row(columns_[axis][i])[columns_[axis][j]];
  }
  for (const std::vector<float>& solved : solved_) {
    product -= static_cast<double>(solved[i]) * static_cast<double>(solved[j]);
  }
  return signal_ * product;
}

}  // namespace moetune
