// What the models of a strategy see of a space: the parameters that vary, each with a coordinate for every
// value of its domain. Immutable; refers to nothing; safe to share between threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/legal_space.h"

namespace moetune {

struct Axis {
  std::size_t parameter = 0;
  bool ordered = true;         // false for names: equal or not is all there is to know
  std::vector<double> at;      // by position, in [0, 1]: logarithms where the values are positive
  std::vector<double> rough;   // by pair of positions, in [0, 1]: how alike two values are as divisors
  double prior_relevance = 0;  // added to the logit that the kernel expects of an axis
  std::size_t size() const { return at.size(); }
};

class Encoding {
 public:
  explicit Encoding(const LegalSpace& space);

  const std::vector<Axis>& axes() const { return axes_; }
  // The positions of `id`, or of any point of the domains, on the axes, appended to `rows`.
  void append(const LegalSpace& space, ConfigId id, std::vector<Position>& rows) const {
    append(space.point(id), rows);
  }
  void append(std::span<const Position> point, std::vector<Position>& rows) const;

 private:
  std::vector<Axis> axes_;
};

}  // namespace moetune
