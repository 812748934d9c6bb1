#include "jobs/range/served_ranges.h"

#include <algorithm>

#include "base/error.h"
#include "jobs/session/stored_space.h"
#include "tuner/judgement.h"

namespace moetune {
namespace {

// Makes the ranges wide enough for a problem in all dimensions that are not among the first `named`.
void widen(std::vector<DimensionRange>& ranges, std::size_t named, const Kernel& kernel, const Problem& problem) {
  const Extents extents = kernel.extents_of(problem);
  const std::vector<std::string>& names = kernel.free_dimensions();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto known = std::ranges::find(ranges, names[i], &DimensionRange::name);
    if (known == ranges.end()) {
      ranges.push_back({names[i], extents[i], extents[i]});
    } else if (known - ranges.begin() >= static_cast<std::ptrdiff_t>(named)) {
      known->first = std::min(known->first, extents[i]);
      known->last = std::max(known->last, extents[i]);
    }
  }
}

}  // namespace

std::vector<DimensionRange> served_ranges(const Kernel& kernel, std::vector<DimensionRange> ranges,
                                          const Problem& base) {
  const std::size_t named = ranges.size();
  widen(ranges, named, kernel, base);
  return ranges;
}

std::vector<DimensionRange> served_ranges(const Kernel& kernel, const RangeTable& table) {
  std::vector<DimensionRange> ranges = parse_ranges(table.ranges);
  const std::size_t named = ranges.size();
  for (const RangeCell& cell : table.cells) widen(ranges, named, kernel, kernel.parse(cell.problem));
  return ranges;
}

std::string judged_of_ranges(const Kernel& kernel, const std::vector<DimensionRange>& served, const Problem& base,
                             const HardwareKey& hardware) {
  if (hardware.origin != "gpu") return "";
  try {
    Extents extents = kernel.extents_of(base);
    const std::vector<std::string>& names = kernel.free_dimensions();
    for (const DimensionRange& range : served) {
      const auto place = std::ranges::find(names, range.name);
      if (place != names.end()) extents[static_cast<std::size_t>(place - names.begin())] = range.first;
    }
    return Judgement(kernel, kernel.problem_of(kernel.specialization(base), extents), stored_limits(hardware))
        .of_problem();
  } catch (const BadInput&) {
    return "";
  }
}

bool covers(const std::vector<DimensionRange>& wide, const std::vector<DimensionRange>& narrow) {
  return std::ranges::all_of(narrow, [&](const DimensionRange& one) {
    const auto same = std::ranges::find(wide, one.name, &DimensionRange::name);
    return same == wide.end() || (same->first <= one.first && same->last >= one.last);
  });
}

}  // namespace moetune
