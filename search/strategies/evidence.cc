#include "search/strategies/evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cholesky.h"

namespace moetune {
namespace {

constexpr double kFirstStep = 0.2;
constexpr double kLargestStep = 0.8;
constexpr double kSmallestStep = 1e-3;

class Evidence {
 public:
  Evidence(ProductKernel& kernel, const std::vector<Position>& rows, const std::vector<double>& values)
      : kernel_(kernel), rows_(rows), values_(values), n_(values.size()) {}

  // Minus the logarithm of the posterior; fills `gradient`. Infinity where the matrix is not factorable.
  double operator()(std::vector<double>& gradient) {
    kernel_.tabulate(true);
    fill_covariance();
    std::vector<double> factor = covariance_;
    for (std::size_t i = 0; i < n_; ++i) factor[i * n_ + i] += kernel_.noise() + 1e-8;
    if (!factor_cholesky(factor, n_)) return std::numeric_limits<double>::infinity();
    const std::vector<double> inverse = invert_factor(factor, n_);
    weigh(inverse);
    double objective = static_cast<double>(n_) / 2 * std::log(signal_);
    for (std::size_t i = 0; i < n_; ++i) objective += std::log(factor[i * n_ + i]);
    std::fill(gradient.begin(), gradient.end(), 0.0);
    objective += kernel_.penalty(gradient);
    add_slopes(gradient);
    return objective;
  }

 private:
  const Position* row(std::size_t i) const { return &rows_[i * kernel_.axis_count()]; }

  void fill_covariance() {
    covariance_.assign(n_ * n_, 1.0);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < i; ++j) covariance_[i * n_ + j] = kernel_(row(i), row(j));
    }
  }

  // weights_ = inverse covariance - alpha alpha' / signal, lower triangle: what the objective's slope by each
  // covariance is, times two.
  void weigh(const std::vector<double>& inverse_factor) {
    std::vector<double> whitened(n_, 0.0);
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j; i < n_; ++i) whitened[i] += inverse_factor[j * n_ + i] * values_[j];
    }
    std::vector<double> alpha(n_, 0.0);
    double sum = 0;
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j; i < n_; ++i) alpha[j] += inverse_factor[j * n_ + i] * whitened[i];
      sum += whitened[j] * whitened[j];
    }
    signal_ = std::max(sum / static_cast<double>(n_), 1e-12);
    weights_.assign(n_ * n_, 0.0);
    for (std::size_t a = 0; a < n_; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        const double* left = &inverse_factor[a * n_];
        const double* right = &inverse_factor[b * n_];
        weights_[a * n_ + b] = dot(left + a, right + a, n_ - a) - alpha[a] * alpha[b] / signal_;
      }
    }
  }

  void add_slopes(std::vector<double>& gradient) const {
    const std::size_t axes = kernel_.axis_count();
    double by_share = gradient[kernel_.share_index()];
    for (std::size_t i = 0; i < n_; ++i) {
      gradient[kernel_.noise_index()] += kernel_.noise() * weights_[i * n_ + i] / 2;
      for (std::size_t j = 0; j < i; ++j) {
        const double pull = weights_[i * n_ + j] * covariance_[i * n_ + j];
        for (std::size_t axis = 0; axis < axes; ++axis) {
          const ProductKernel::Table& table = kernel_.tables()[axis];
          const std::size_t at = row(i)[axis] * table.size + row(j)[axis];
          gradient[2 * axis] += pull * table.by_relevance[at];
          gradient[2 * axis + 1] += pull * table.by_length[at];
          by_share += pull * table.by_share[at];
        }
      }
    }
    gradient[kernel_.share_index()] = by_share;
  }

  ProductKernel& kernel_;
  const std::vector<Position>& rows_;
  const std::vector<double>& values_;
  std::size_t n_;
  double signal_ = 1;
  std::vector<double> covariance_;
  std::vector<double> weights_;
};

}  // namespace

void fit_kernel(ProductKernel& kernel, const std::vector<Position>& rows, const std::vector<double>& values, int steps,
                const std::function<bool()>& is_over) {
  const std::size_t count = kernel.parameters.size();
  Evidence evidence(kernel, rows, values);
  std::vector<double> gradient(count);
  std::vector<double> previous(count, 0.0);
  std::vector<double> step(count, kFirstStep);
  std::vector<double> best = kernel.parameters;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < steps && !(is_over && is_over()); ++i) {
    const double objective = evidence(gradient);
    if (objective < least) {
      least = objective;
      best = kernel.parameters;
    }
    if (!std::isfinite(objective)) break;
    for (std::size_t p = 0; p < count; ++p) {
      const double agreement = gradient[p] * previous[p];
      if (agreement > 0) step[p] = std::min(step[p] * 1.3, kLargestStep);
      if (agreement < 0) step[p] = std::max(step[p] * 0.5, kSmallestStep);
      previous[p] = agreement < 0 ? 0 : gradient[p];
      if (previous[p] > 0) kernel.parameters[p] -= step[p];
      if (previous[p] < 0) kernel.parameters[p] += step[p];
    }
  }
  kernel.parameters = best;
  kernel.tabulate(false);
}

}  // namespace moetune
