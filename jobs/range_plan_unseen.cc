// Random problems of a range that no search has tuned.
#include <algorithm>
#include <cmath>

#include "jobs/range_plan.h"
#include "search/random.h"

namespace moetune {
namespace {

constexpr int kDrawsPerShape = 50;

}  // namespace

std::vector<Problem> RangePlan::unseen(std::size_t count, std::uint64_t seed,
                                       const std::set<std::string>& keep) const {
  std::vector<Problem> shapes;
  Random random(seed ^ 0x5eed5eed5eed5eedu);
  const auto take = [&](const Problem& problem) {
    const bool is_cell = is_planned(problem) && !keep.contains(problem.text());
    if (is_cell || std::find(shapes.begin(), shapes.end(), problem) != shapes.end()) return;
    shapes.push_back(problem);
  };
  if (session_.recording() != nullptr) {
    std::vector<Problem> left = recorded_;
    random.shuffle(left);
    for (const Problem& problem : left) {
      if (shapes.size() < count) take(problem);
    }
    return shapes;
  }
  for (std::size_t draw = 0; draw < kDrawsPerShape * count && shapes.size() < count; ++draw) {
    GridPoint values;
    for (const DimensionRange& range : ranges_) {
      const double ratio = static_cast<double>(range.last) / static_cast<double>(range.first);
      values.push_back(std::llround(static_cast<double>(range.first) * std::pow(ratio, random.unit())));
    }
    const std::optional<Problem> problem = problem_of_kind(values, interface_->has_uneven() && draw % 2 == 1);
    if (problem && fits(*problem)) take(*problem);
  }
  return shapes;
}

}  // namespace moetune
