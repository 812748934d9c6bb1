// The objective of a search in a recording: the time of a launch, or another figure of its rows (energy, GFLOP/s),
// for which a search minimizes a cost in place of times. A plain value; shares the figures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/legal_space.h"

namespace moetune {

struct Objective {
  std::string name = "time";
  std::string unit;  // of the figures, as the recording says; "" if it does not
  bool larger_is_better = false;
  // By ConfigId of the recording; null if the objective is a time, which trials hold in microseconds themselves.
  std::shared_ptr<const std::vector<double>> figures;
  double best = 0;  // of the figures

  bool is_time() const { return figures == nullptr; }
  double figure(ConfigId id) const { return figures->at(id); }
};

}  // namespace moetune
