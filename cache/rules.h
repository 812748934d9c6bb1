// Conditions on a stored record beyond its digest, which only those who write records know (soundness/). Plain data.
#pragma once

#include <compare>
#include <functional>
#include <string>

#include "cache/ranges.h"
#include "cache/trials.h"
#include "cache/winners.h"

namespace moetune {

// By what a merge orders two tables of one key: sound before contended, then the finer one, then the smaller upper end
// of the loss that was seen, infinity if none was. A table of few cells, of which few shapes were measured, says little
// by its small loss.
struct RangeMerit {
  bool contended = false;
  int coarseness = 0;  // smaller: more cells
  double regret = 0;

  auto operator<=>(const RangeMerit&) const = default;
};

// Each returns what is wrong with a record, "" for nothing, and may be empty. The key of a record without its workload
// has no kernel.
struct RecordRules {
  std::function<std::string(const Workload&)> workload;
  std::function<std::string(const WorkloadKey&, const TrialRecord&)> trial;
  std::function<std::string(const Workload&, const WinnerRecord&, WinnerParts)> winner;
  std::function<std::string(const FamilyRange&)> range = {};
  // How good a range table is, for merges; if it is empty all are equal.
  std::function<RangeMerit(const std::string& table)> range_merit = {};
};

}  // namespace moetune
