// The posterior of a Gaussian process over a pool of configurations, kept up to date one observation at a
// time: an observation costs one pass over the pool for each that came before (an incremental Cholesky
// factor whose solved columns are kept).
//
// An observation may be open: its place is known and its value is not. It narrows the variance around it and
// moves no mean ("kriging believer": Ginsbourger, Le Riche, Carraro 2010).
//
// One owner; not thread-safe.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/strategies/product_kernel.h"

namespace moetune {

class Posterior {
 public:
  // `pool` holds axis_count() positions a configuration. Copies the kernel, which must be tabulated.
  Posterior(const ProductKernel& kernel, const std::vector<Position>& pool);

  // Adds observations, all open, from axis_count() positions each. Many at once cost less than one by one.
  // Returns the index of the first.
  std::size_t add_open(const std::vector<Position>& rows);
  void set_value(std::size_t observation, double value);
  // Adds to the pool, from axis_count() positions each. Returns the index of the first.
  std::size_t add_members(const std::vector<Position>& rows);

  std::size_t pool_size() const { return count_; }
  double mean(std::size_t i) const { return mean_[i]; }
  double deviation(std::size_t i) const;                                    // of the value without noise
  double residual() const { return std::sqrt(signal_ * kernel_.noise()); }  // deviation of the noise
  // Between two of the pool; deviation(i) squared where they are one.
  double covariance(std::size_t i, std::size_t j) const;

 private:
  const Position* row(std::size_t observation) const { return &rows_[observation * kernel_.axis_count()]; }
  void append_columns(const std::vector<Position>& rows);
  void extend_factor(std::size_t observation);
  std::vector<float> prefix_table(std::size_t observation) const;
  // An observation with the pool from `begin` on.
  void correlate(std::size_t observation, std::size_t begin);
  void solve_over_pool(std::size_t first, std::size_t begin, std::size_t end);
  void solve_together(std::size_t first, std::size_t last, std::size_t begin, std::size_t end);
  void update_signal();

  ProductKernel kernel_;
  std::size_t count_ = 0;
  std::vector<std::vector<Position>> columns_;  // the pool, by axis
  std::size_t prefix_axes_ = 0;                 // the first ones: all their combinations fit one table
  std::vector<std::uint32_t> prefixes_;         // the pool's positions in that table
  std::vector<Position> rows_;                  // of the observations
  std::vector<std::vector<double>> factor_;     // lower triangular
  std::vector<std::vector<float>> solved_;      // by observation, over the pool
  std::vector<double> values_;                  // NaN where open
  std::vector<double> whitened_;                // 0 where open
  std::vector<float> mean_;
  std::vector<float> variance_;  // relative to the signal's
  double signal_ = 1;            // variance of the values that the kernel explains
};

}  // namespace moetune
