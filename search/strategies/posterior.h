// The posterior of a Gaussian process over a fixed pool of configurations, kept up to date one observation at
// a time: an observation costs one pass over the pool for each that came before (an incremental Cholesky
// factor whose solved columns are kept).
//
// An observation may be open: its place is known and its value is not. It narrows the variance around it and
// moves no mean ("kriging believer": Ginsbourger, Le Riche, Carraro 2010).
//
// One owner; not thread-safe.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "search/strategies/product_kernel.h"

namespace moetune {

class Posterior {
 public:
  // `pool` holds axis_count() positions a configuration. Copies the kernel, which must be tabulated.
  Posterior(const ProductKernel& kernel, const std::vector<Position>& pool);

  std::size_t pool_size() const { return count_; }
  std::size_t observations() const { return values_.size(); }

  // The index that set_value and forget take.
  std::size_t add_open(const Position* row);
  void set_value(std::size_t observation, double value);

  // In units of the values, of the signal's variance 1.
  double mean(std::size_t i) const { return mean_[i]; }
  double variance(std::size_t i) const { return variance_[i] > 1e-6f ? variance_[i] : 1e-6; }
  // Sum of squares of the whitened values over their number: the signal's variance.
  double signal() const;
  // Of a pool member: the covariance with each observation's place, weighted.
  const ProductKernel& kernel() const { return kernel_; }

 private:
  void solve_from(std::size_t first);

  ProductKernel kernel_;
  std::size_t count_ = 0;
  std::vector<std::vector<Position>> columns_;  // by axis
  std::vector<Position> rows_;                  // observations
  std::vector<std::vector<double>> factor_;     // lower triangular
  std::vector<std::vector<float>> solved_;      // by observation, over the pool
  std::vector<double> values_;                  // NaN where open
  std::vector<double> whitened_;                // 0 where open
  std::vector<float> mean_;
  std::vector<float> variance_;
};

}  // namespace moetune
