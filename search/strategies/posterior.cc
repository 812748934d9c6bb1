#include "search/strategies/posterior.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cholesky.h"
#include "search/strategies/lanes.h"

namespace moetune {
namespace {

constexpr double kJitter = 1e-6;
constexpr float kLeastVariance = 1e-6f;
constexpr std::size_t kTile = 512;  // pool members solved together: their columns stay in the cache

constexpr std::size_t kTogether = 4;       // observations solved together: they read the earlier ones once
constexpr std::size_t kMostPrefix = 4096;  // and at most a quarter of the pool, which is to gain by it

}  // namespace

Posterior::Posterior(const ProductKernel& kernel, const std::vector<Position>& pool)
    : kernel_(kernel), columns_(kernel.axis_count()) {
  const std::size_t members = pool.size() / std::max<std::size_t>(kernel_.axis_count(), 1);
  const std::size_t most = std::min(kMostPrefix, members / 4);
  std::size_t size = 1;
  for (const ProductKernel::Table& table : kernel_.tables()) {
    if (size * table.size > most) break;
    size *= table.size;
    ++prefix_axes_;
  }
  append_columns(pool);
}

void Posterior::append_columns(const std::vector<Position>& rows) {
  const std::size_t axes = kernel_.axis_count();
  if (axes == 0) return;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    for (std::size_t at = axis; at < rows.size(); at += axes) columns_[axis].push_back(rows[at]);
  }
  for (std::size_t at = 0; at < rows.size(); at += axes) {
    std::uint32_t prefix = 0;
    for (std::size_t axis = 0; axis < prefix_axes_; ++axis)
      prefix = prefix * static_cast<std::uint32_t>(kernel_.tables()[axis].size) + rows[at + axis];
    prefixes_.push_back(prefix);
  }
  count_ += rows.size() / axes;
  mean_.resize(count_, 0);
  variance_.resize(count_, 1);
}

std::size_t Posterior::add_members(const std::vector<Position>& rows) {
  const std::size_t first = count_;
  append_columns(rows);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    solved_[i].resize(count_);
    correlate(i, first);
  }
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
    solved_.emplace_back(count_);
    correlate(i, 0);
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

// The same products, in the same order, as of the kernel itself.
std::vector<float> Posterior::prefix_table(std::size_t observation) const {
  std::vector<float> products = {1};
  for (std::size_t axis = 0; axis < prefix_axes_; ++axis) {
    const ProductKernel::Table& table = kernel_.tables()[axis];
    const float* factors = table.row(row(observation)[axis]);
    std::vector<float> longer(products.size() * table.size);
    for (std::size_t i = 0; i < products.size(); ++i) {
      for (std::size_t value = 0; value < table.size; ++value)
        longer[i * table.size + value] = products[i] * factors[value];
    }
    products = std::move(longer);
  }
  return products;
}

void Posterior::correlate(std::size_t observation, std::size_t begin) {
  const std::vector<float> products = prefix_table(observation);
  float* solved = solved_[observation].data();
  for (std::size_t k = begin; k < count_; ++k) solved[k] = products[prefixes_[k]];
  for (std::size_t axis = prefix_axes_; axis < kernel_.axis_count(); ++axis) {
    const ProductKernel::Table& table = kernel_.tables()[axis];
    multiply_by_entries(solved + begin, {table.row(row(observation)[axis]), table.size}, columns_[axis].data() + begin,
                        count_ - begin);
  }
}

void Posterior::solve_over_pool(std::size_t first, std::size_t begin, std::size_t end) {
  for (std::size_t i = first; i < values_.size(); i += kTogether)
    solve_together(i, std::min(i + kTogether, values_.size()), begin, end);
}

void Posterior::solve_together(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) {
  const std::size_t size = end - begin;
  std::vector<float*> solved;
  std::vector<std::vector<float>> weights;
  for (std::size_t i = first; i < last; ++i) {
    solved.push_back(solved_[i].data() + begin);
    weights.emplace_back(factor_[i].begin(), factor_[i].begin() + static_cast<std::ptrdiff_t>(first));
  }
  subtract_products(solved, solved_, weights, begin, size);
  float* variance = variance_.data() + begin;
  for (std::size_t i = first; i < last; ++i) {
    float* mine = solved[i - first];
    for (std::size_t j = first; j < i; ++j)
      add_scaled(mine, solved[j - first], -static_cast<float>(factor_[i][j]), size);
    const auto scale = static_cast<float>(1 / factor_[i][i]);
    for (std::size_t k = 0; k < size; ++k) {
      mine[k] *= scale;
      variance[k] -= mine[k] * mine[k];
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
