#include "jobs/range_contest.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace moetune {
namespace {

constexpr std::size_t kMostContestCells = 12;
// A new table may be slower than the old one at no shape by more.
constexpr double kWorstOfContest = 1.01;

}  // namespace

RangeRecord StandingTable::kept_under(const RangeKey& other) const {
  return key == other ? record : RangeRecord{};
}

RangeContest StandingTable::contest(
    const std::function<std::optional<double>(const RangeCell&)>& ratio_at) const {
  RangeContest contest;
  double logs = 0;
  const std::size_t count = std::min(kMostContestCells, table.cells.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<double> ratio = ratio_at(table.cells[i * table.cells.size() / count]);
    if (!ratio) continue;
    logs += std::log(*ratio);
    contest.worst = contest.shapes++ == 0 ? *ratio : std::max(contest.worst, *ratio);
  }
  if (contest.shapes > 0) contest.ratio = std::exp(logs / static_cast<double>(contest.shapes));
  contest.replaced = contest.ratio <= 1 && contest.worst <= kWorstOfContest;
  return contest;
}

std::optional<StandingTable> find_standing(const Cache& cache, const RangeKey& key) {
  for (const FamilyRange& range : cache.family_ranges(key.kernel, key.family)) {
    if (range.key.hardware.text() != key.hardware.text() || range.key.timing != key.timing) continue;
    try {
      RangeTable table = RangeTable::parse(range.table, "a stored range table");
      if (table.contended || table.cells.empty()) continue;
      return StandingTable{range.key, std::move(table), cache.range_record(range)};
    } catch (const BadInput&) {
    } catch (const BrokenEnvironment&) {  // a damaged cubin: no server takes it
    }
  }
  return std::nullopt;
}

}  // namespace moetune
