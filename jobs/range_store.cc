#include "jobs/range_store.h"

#include "base/error.h"
#include "jobs/served_ranges.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// What a table serves; of one of a recording, whose cells are whatever was recorded, what it names.
std::vector<DimensionRange> served_by(const RangeKey& key, const RangeTable& table) {
  try {
    if (key.hardware.origin == "gpu") return served_ranges(find_kernel(key.kernel), table);
  } catch (const BadInput&) {  // of another version
  }
  return parse_ranges(table.ranges);
}

}  // namespace

RangeStore::RangeStore(Cache& cache, RangeKey key, const std::vector<DimensionRange>& ranges,
                       const Problem& base, const Choice& choice)
    : cache_(cache), key_(std::move(key)), ranges_(ranges_text(ranges)), choice_(choice) {
  // A server takes the latest table, whatever its sources. Without a guard that is this search's, and of those of
  // other sources nothing is replaced.
  standing_ = find_standing(cache_, key_, choice_.guard ? Sources::any : Sources::same);
  if (!standing_) return;
  const bool is_ours = standing_->key == key_;
  const std::vector<DimensionRange> served = served_by(key_, standing_->table);
  const std::vector<DimensionRange> wanted = served_ranges(find_kernel(key_.kernel), ranges, base);
  goes_on_ = is_ours && standing_->table.ranges == ranges_ && covers(served, wanted) && !choice_.fresh;
  if ((choice_.guard || (is_ours && !choice_.fresh)) && !covers(wanted, served)) {
    throw BadField("over", "the cache holds a table for " + ranges_text(served) + ", which " +
                               ranges_text(wanted) +
                               " would replace; use another cache, a range as wide, or fresh to replace it");
  }
}

std::optional<RangeState> RangeStore::progress() const {
  if (choice_.fresh) return std::nullopt;
  if (cache_.is_range_damaged(key_))
    throw BadInput("its stored table and progress are damaged (they do not match their digest)");
  const std::string text = cache_.range_progress(key_);
  return text.empty() ? std::nullopt : std::optional(RangeState::parse(text));
}

bool RangeStore::may_replace(const RangeSolution& solution, Stage stage) const {
  if (!standing_) return true;
  if (choice_.guard || solution.table.cells.empty()) return false;
  if (stage == Stage::complete) return true;
  const bool has_as_many = solution.table.cells.size() >= standing_->table.cells.size();
  return has_as_many && (stage == Stage::time_is_up || goes_on_);
}

void RangeStore::put(const RangeState& state, const RangeSolution& solution, Made made, Stage stage) {
  if (!may_replace(solution, stage)) {
    RangeRecord record = standing_->kept_under(key_);
    record.progress = state.text();
    cache_.put_range(key_, record);
    return;
  }
  stored_ = !made.variants.empty();
  cache_.put_range(key_, {.table = solution.table.cells.empty() ? "" : solution.table.text(),
                          .progress = state.text(),
                          .variants = std::move(made.variants),
                          .stored_at = "",
                          .provenance = std::move(made.provenance)});
}

std::optional<RangeContest> RangeStore::meet(const RangeSolution& solution,
                                             const std::function<ContestRatio(const RangeCell&)>& ratio_at) {
  if (!choice_.guard || !standing_) return std::nullopt;
  RangeContest contest = standing_->contest(ratio_at);
  contest.replaced = contest.replaced && !solution.table.cells.empty();
  if (contest.replaced) standing_.reset();
  return contest;
}

}  // namespace moetune
