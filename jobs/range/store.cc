#include "jobs/range/store.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "jobs/range/served_ranges.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// The ranges that a table's cells cover. For a recording, whose cells are whatever was recorded, the ranges it names.
std::vector<DimensionRange> served_by(const RangeKey& key, const RangeTable& table) {
  try {
    if (key.hardware.origin == "gpu") return served_ranges(find_kernel(key.kernel), table);
  } catch (const BadInput&) {  // of another version
  }
  return parse_ranges(table.ranges);
}

}  // namespace

RangeStore::RangeStore(Cache& cache, RangeKey key, const std::vector<DimensionRange>& ranges, const Problem& base,
                       const Choice& choice)
    : cache_(cache), key_(std::move(key)), ranges_(ranges_text(ranges)), choice_(choice) {
  // A server takes the latest table, whatever its sources. Without a guard that is this search's, and of those of
  // other sources nothing is replaced.
  standing_ = find_standing(choice_.guard);
  if (!standing_) return;
  const bool is_ours = standing_->key == key_;
  const std::vector<DimensionRange> served = served_by(key_, standing_->table);
  const std::vector<DimensionRange> wanted = served_ranges(find_kernel(key_.kernel), ranges, base);
  goes_on_ = is_ours && standing_->table.ranges == ranges_ && covers(served, wanted) && !choice_.fresh;
  if ((choice_.guard || (is_ours && !choice_.fresh)) && !covers(wanted, served)) {
    throw BadField("over", "the cache holds a table for " + ranges_text(served) + ", which " + ranges_text(wanted) +
                               " would replace; use another cache, a range as wide, or fresh to replace it");
  }
}

std::optional<RangeState> RangeStore::progress() const {
  if (choice_.fresh) return std::nullopt;
  if (cache_.ranges.is_damaged(key_))
    throw BadInput("its stored table and progress are damaged (they do not match their digest)");
  const std::string text = cache_.ranges.progress(key_);
  return text.empty() ? std::nullopt : std::optional(RangeState::parse(text));
}

std::optional<RangeStore::Standing> RangeStore::find_standing(bool any_sources) const {
  for (const FamilyRange& range : cache_.ranges.of_family(key_.kernel, key_.family)) {
    if (range.key.hardware.text() != key_.hardware.text() || range.key.timing != key_.timing) continue;
    if (!any_sources && !(range.key == key_)) continue;
    try {
      RangeTable table = RangeTable::parse(range.table, "a stored range table");
      if (table.contended || table.cells.empty()) continue;
      return Standing{range.key, std::move(table), cache_.ranges.record(range)};
    } catch (const BadInput&) {
    } catch (const BrokenEnvironment&) {  // a damaged cubin: no server takes it
    }
  }
  return std::nullopt;
}

bool RangeStore::may_replace(const RangeTable& table, Stage stage) {
  if (!standing_) return true;
  const bool has_as_many = table.cells.size() >= standing_->table.cells.size();
  const bool is_enough =
      stage == Stage::complete || (has_as_many && (stage == Stage::time_is_up || (goes_on_ && !choice_.guard)));
  if (table.cells.empty() || !is_enough) return false;
  if (!choice_.guard) return true;
  comparison_ = RangeComparison::of(table, standing_->table);
  comparison_->replaced = comparison_->replaced && !table.contended;
  return comparison_->replaced;
}

void RangeStore::put(const RangeState& state, const RangeTable& table, Made made, Stage stage) {
  if (!may_replace(table, stage)) {
    // Store the progress beside the standing table if that has the same key, else beside none.
    RangeRecord record = standing_->key == key_ ? standing_->record : RangeRecord{};
    record.progress = state.text();
    cache_.ranges.put(key_, record);
    return;
  }
  stored_ = !made.variants.empty();
  cache_.ranges.put(key_, {.table = table.cells.empty() ? "" : table.text(),
                           .progress = state.text(),
                           .variants = std::move(made.variants),
                           .stored_at = "",
                           .provenance = std::move(made.provenance)});
}

RangeComparison RangeComparison::of(const RangeTable& fresh, const RangeTable& standing) {
  RangeComparison comparison;
  double logs = 0;
  for (const RangeCell& cell : fresh.cells) {
    const auto old = std::ranges::find(standing.cells, cell.problem, &RangeCell::problem);
    if (old == standing.cells.end() || cell.default_us <= 0 || old->default_us <= 0) continue;
    // Older tables did not keep which default they met.
    if (!old->default_config.empty() && old->default_config != cell.default_config) continue;
    logs += std::log(cell.time_us / cell.default_us) - std::log(old->time_us / old->default_us);
    ++comparison.cells;
  }
  if (comparison.cells > 0) comparison.ratio = std::exp(logs / static_cast<double>(comparison.cells));
  comparison.replaced = comparison.ratio <= kNoise;
  return comparison;
}

}  // namespace moetune
