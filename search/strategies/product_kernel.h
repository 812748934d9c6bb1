// The covariance of the Gaussian process: a product over the axes of (1 - r) + r * k(a, b), where r in [0, 1]
// is how much the axis matters and k is a Matern 5/2 correlation of the coordinates mixed with a rough one:
// being equal, or alike as a divisor. Multiplied out it holds every main effect and every interaction,
// weighted (an ANOVA kernel: Duvenaud, Nickisch, Rasmussen 2011). Axes have few steps (encoding.h): each is a table.
//
// A plain value; one owner; not thread-safe while tabulate() runs.
#pragma once

#include <cstddef>
#include <vector>

#include "search/strategies/encoding.h"

namespace moetune {

class ProductKernel {
 public:
  explicit ProductKernel(std::vector<Axis> axes);

  // Unconstrained hyper-parameters: relevance and length of each axis, then the share of the
  // rough correlation, then the noise, as logits and logarithms. An unordered axis has no length, but keeps
  // the place.
  std::vector<double> parameters;
  std::size_t axis_count() const { return axes_.size(); }
  std::size_t relevance_index(std::size_t axis) const { return 2 * axis; }
  std::size_t length_index(std::size_t axis) const { return 2 * axis + 1; }
  std::size_t share_index() const { return 2 * axes_.size(); }
  std::size_t noise_index() const { return 2 * axes_.size() + 1; }
  double noise() const;  // variance of what no axis explains, relative to the signal's

  // Minus the logarithm of the prior of the hyper-parameters, and its gradient added to `gradient`.
  double penalty(std::vector<double>& gradient) const;

  // Refills the tables from `parameters`; `with_slopes` those of the gradient too.
  void tabulate(bool with_slopes);

  struct Table {
    std::size_t size = 0;
    std::vector<float> value;         // size x size
    std::vector<float> by_relevance;  // d log value / d parameter
    std::vector<float> by_length;
    std::vector<float> by_share;
    const float* row(Position position) const { return value.data() + position * size; }
  };
  const std::vector<Table>& tables() const { return tables_; }

  double operator()(const Position* a, const Position* b) const {
    double product = 1;
    for (std::size_t i = 0; i < tables_.size(); ++i) product *= tables_[i].row(a[i])[b[i]];
    return product;
  }

 private:
  void fill(std::size_t axis, bool with_slopes);

  std::vector<Axis> axes_;
  std::vector<Table> tables_;
};

}  // namespace moetune
