#include "search/strategies/posterior.h"

#include <algorithm>
#include <cmath>

namespace moetune {
namespace {

// y += a * x, in blocks that a compiler turns into vector code at any optimization level.
void add_scaled(float* y, const float* x, float a, std::size_t n) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (std::size_t k = 0; k < 16; ++k) y[i + k] += a * x[i + k];
  }
  for (; i < n; ++i) y[i] += a * x[i];
}

}  // namespace

Posterior::Posterior(const ProductKernel& kernel, const std::vector<Position>& pool)
    : kernel_(kernel), count_(kernel.axis_count() > 0 ? pool.size() / kernel.axis_count() : 0) {
  const std::size_t axes = kernel_.axis_count();
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<Position>& column = columns_.emplace_back(count_);
    for (std::size_t i = 0; i < count_; ++i) column[i] = pool[i * axes + axis];
  }
  mean_.assign(count_, 0);
  variance_.assign(count_, 1);
}

std::size_t Posterior::add_open(const Position* row) {
  const std::size_t n = values_.size();
  const std::size_t axes = kernel_.axis_count();
  std::vector<double>& line = factor_.emplace_back(n + 1);
  double rest = 1 + kernel_.noise() + 1e-6;
  for (std::size_t j = 0; j < n; ++j) {
    double sum = kernel_(row, &rows_[j * axes]);
    for (std::size_t k = 0; k < j; ++k) sum -= line[k] * factor_[j][k];
    line[j] = sum / factor_[j][j];
    rest -= line[j] * line[j];
  }
  line[n] = std::sqrt(std::max(rest, 1e-6));

  std::vector<float>& solved = solved_.emplace_back(count_, 1.0f);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const float* table = kernel_.tables()[axis].row(row[axis]);
    const Position* column = columns_[axis].data();
    for (std::size_t i = 0; i < count_; ++i) solved[i] *= table[column[i]];
  }
  for (std::size_t j = 0; j < n; ++j) {
    add_scaled(solved.data(), solved_[j].data(), static_cast<float>(-line[j]), count_);
  }
  const auto scale = static_cast<float>(1 / line[n]);
  for (std::size_t i = 0; i < count_; ++i) {
    solved[i] *= scale;
    variance_[i] -= solved[i] * solved[i];
  }
  rows_.insert(rows_.end(), row, row + axes);
  values_.push_back(std::numeric_limits<double>::quiet_NaN());
  whitened_.push_back(0);
  return n;
}

void Posterior::set_value(std::size_t observation, double value) {
  values_[observation] = value;
  solve_from(observation);
}

void Posterior::solve_from(std::size_t first) {
  for (std::size_t i = first; i < values_.size(); ++i) {
    if (std::isnan(values_[i])) continue;
    double sum = values_[i];
    for (std::size_t k = 0; k < i; ++k) sum -= factor_[i][k] * whitened_[k];
    sum /= factor_[i][i];
    const double change = sum - whitened_[i];
    whitened_[i] = sum;
    if (change != 0) add_scaled(mean_.data(), solved_[i].data(), static_cast<float>(change), count_);
  }
}

double Posterior::signal() const {
  double sum = 0;
  double known = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (std::isnan(values_[i])) continue;
    sum += whitened_[i] * whitened_[i];
    ++known;
  }
  return known > 0 ? std::max(sum / known, 1e-12) : 1;
}

}  // namespace moetune
