#include "jobs/range/served_table.h"

#include <algorithm>

#include "base/error.h"
#include "soundness/stored_key.h"

namespace moetune {

ServedTable::ServedTable(const Kernel& kernel, const FamilyRange& range)
    : kernel_(kernel),
      range_(range),
      table_(RangeTable::parse(range.table, "a stored range table")),
      picks_(kernel, stored_limits(range.key.hardware), table_) {}

bool ServedTable::holds(const Problem& problem) const {
  return kernel_.specialization(problem).text() == range_.key.family && picks_.holds(problem);
}

std::optional<RangePicks::Pick> ServedTable::at(const Problem& problem) const {
  return holds(problem) ? picks_.at(problem) : std::nullopt;
}

bool ServedTable::supersedes(Timing timing, const std::string& stored_at) const {
  if (timing != range_.key.timing) return timing > range_.key.timing;
  return stored_at <= range_.stored_at;
}

std::unique_ptr<const ServedTable> find_served_table(const Cache& cache, const Kernel& kernel,
                                                     const HardwareKey& hardware, const Problem& problem) {
  std::vector<FamilyRange> ranges = cache.ranges.of_family(kernel.name(), kernel.specialization(problem).text());
  std::ranges::stable_sort(ranges, {}, [](const FamilyRange& one) { return one.key.timing; });  // latest first before
  for (const FamilyRange& range : ranges) {
    if (!range.key.hardware.is_same(hardware)) continue;
    try {
      auto table = std::make_unique<const ServedTable>(kernel, range);
      if (table->is_served()) return table->holds(problem) ? std::move(table) : nullptr;
    } catch (const BadInput&) {  // of another version
    }
  }
  return nullptr;
}

}  // namespace moetune
