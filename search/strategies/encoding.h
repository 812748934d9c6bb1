// A space as the models of a strategy see it: the parameters that vary, each with a coordinate for every value of its
// domain. The models' tables are quadratic in these, so in a domain of more than kMostSteps values neighbours share a
// step of the axis: the model treats them as equal, and the strategies still choose among all of them. Immutable;
// refers to nothing; safe to share between threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/legal_space.h"

namespace moetune {

inline constexpr std::size_t kMostSteps = 256;

struct Axis {
  std::size_t parameter = 0;
  bool ordered = true;               // false for names: equal or not is all there is to know
  std::vector<double> at;            // by step, in [0, 1]: logarithms where the values are positive
  std::vector<double> rough;         // by pair of steps, in [0, 1]: how alike two values are as divisors
  double prior_relevance = 0;        // added to the logit that the kernel expects of an axis
  std::vector<Position> steps = {};  // by position, the step; empty if each has its own
  std::size_t size() const { return at.size(); }
  Position step(Position position) const { return steps.empty() ? position : steps[position]; }
};

class Encoding {
 public:
  explicit Encoding(const LegalSpace& space);

  const std::vector<Axis>& axes() const { return axes_; }
  // The steps of `id`, or of any point of the domains, on the axes, appended to `rows`.
  void append(const LegalSpace& space, ConfigId id, std::vector<Position>& rows) const {
    append(space.point(id), rows);
  }
  void append(std::span<const Position> point, std::vector<Position>& rows) const;

 private:
  std::vector<Axis> axes_;
};

}  // namespace moetune
