#include "jobs/range_contest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace moetune {
namespace {

constexpr std::size_t kMostContestCells = 12;
// A new table may be slower than the old one at no shape by more.
constexpr double kWorstOfContest = 1.005;
constexpr double kNormal95 = 1.96;

}  // namespace

RangeRecord StandingTable::kept_under(const RangeKey& other) const {
  return key == other ? record : RangeRecord{};
}

RangeContest StandingTable::contest(const std::function<ContestRatio(const RangeCell&)>& ratio_at) const {
  RangeContest contest;
  std::vector<double> logs;
  const std::size_t count = std::min(kMostContestCells, table.cells.size());
  bool is_short = false;  // of time
  for (std::size_t i = 0; i < count; ++i) {
    const ContestRatio met = ratio_at(table.cells[i * table.cells.size() / count]);
    if (met.out_of_time) {
      is_short = 2 * i < count;
      break;
    }
    contest.contended = contest.contended || met.contended;
    if (met.contended || met.ratios.empty()) continue;
    double sum = 0;
    for (const double ratio : met.ratios) {
      logs.push_back(std::log(ratio));
      sum += logs.back();
    }
    const double cell = std::exp(sum / static_cast<double>(met.ratios.size()));
    contest.worst = contest.shapes++ == 0 ? cell : std::max(contest.worst, cell);
  }
  if (contest.shapes == 0) return contest;
  const auto n = static_cast<double>(logs.size());
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  double squares = 0;
  for (const double log : logs) squares += (log - mean) * (log - mean);
  const double error = n > 1 ? std::sqrt(squares / (n * (n - 1))) : 0;
  contest.ratio = std::exp(mean);
  contest.upper = std::exp(mean + kNormal95 * error);
  contest.replaced =
      !contest.contended && !is_short && contest.upper <= 1 && contest.worst <= kWorstOfContest;
  return contest;
}

std::optional<StandingTable> find_standing(const Cache& cache, const RangeKey& key, Sources sources) {
  for (const FamilyRange& range : cache.family_ranges(key.kernel, key.family)) {
    if (range.key.hardware.text() != key.hardware.text() || range.key.timing != key.timing) continue;
    if (sources == Sources::same && !(range.key == key)) continue;
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
