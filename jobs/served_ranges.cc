#include "jobs/served_ranges.h"

#include <algorithm>

namespace moetune {
namespace {

// Makes the ranges wide enough for a problem in all dimensions that are not among the first `named`.
void widen(std::vector<DimensionRange>& ranges, std::size_t named, const Kernel& kernel,
           const Problem& problem) {
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
  for (const RangeCell& cell : table.cells)
    widen(ranges, named, kernel, parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem));
  return ranges;
}

bool covers(const std::vector<DimensionRange>& wide, const std::vector<DimensionRange>& narrow) {
  return std::ranges::all_of(narrow, [&](const DimensionRange& one) {
    const auto same = std::ranges::find(wide, one.name, &DimensionRange::name);
    return same == wide.end() || (same->first <= one.first && same->last >= one.last);
  });
}

}  // namespace moetune
