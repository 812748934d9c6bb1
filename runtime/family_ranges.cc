// How a family takes in a stored range table: all of it, or none.
#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "runtime/family_builder.h"
#include "soundness/soundness.h"

namespace moetune {

void FamilyBuilder::take_range(std::size_t origin) {
  for (const StoredRange& range : stored_.ranges) {
    if (!is_of(range.record.key.hardware, origin)) continue;
    try {
      if (take_range(range, origin)) return;
    } catch (const std::runtime_error& error) {  // bad input, a damaged file or cubin
      rethrow_if_of_device(error);
      warnings_.push_back(layers_.path(range.layer) + ": the range table of " + family_.kernel().name() + " " +
                          family_.specialization() + " is not used: " + error.what());
    }
  }
}

bool FamilyBuilder::take_range(const StoredRange& range, std::size_t origin) {
  const Kernel& kernel = family_.kernel();
  const SoundRange sound = read_sound_range(range.record, {&kernel, &space_});
  const RangeTable& table = sound.table;
  if (!sound.outdated.empty()) throw BadInput(sound.outdated);
  if (table.contended || table.cells.empty() || range.record.variants.empty()) return false;
  std::vector<Stored> cubins;
  std::vector<DispatchTable::Measured> cells;
  Extents like;
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const RangeCell& cell = table.cells[i];
    const Problem& problem = sound.problems[i];
    if (i == 0) problem_of(cell.problem);  // of this family
    const Launchable& own = launchable(cell.config, problem);
    require_runnable(own.config, problem);
    like = kernel.extents_of(problem);
    if (cubins.empty()) {
      for (const FamilyRange::Variant& variant : range.record.variants)
        cubins.push_back(
            {origin, range.layer, variant.cubin_digest, matching(variant.config, variant.interface, problem).unit});
    }
    const Variant* const variant = load(cubin_among(cubins, own.unit, cell.config), *own.launcher, problem);
    ChoiceSource source{cell.problem,
                        cell.time_us,
                        cell.default_us,
                        origins_[origin].text,
                        origins_[origin].inherited,
                        range.record.stored_at,
                        layers_.path(range.layer),
                        RangeLoss{table.ranges, table.bound, cell.regret(), table.certificate},
                        range.record.key.timing};
    const TablePoint point = family_.interface().table_point_of(problem);
    cells.push_back({.point = point,
                     .entry = family_.entries_.add({variant, own.launcher, cell.config, std::move(source)}),
                     .met = met_default(cell.default_us, cell.default_config),
                     .is_clear = DispatchTable::is_clear_win(cell.time_us, cell.default_us),
                     .inherited = origins_[origin].inherited,
                     .extents = like});
  }
  like_ = like;
  range_ = {origin, range.layer, range.record.key.timing, range.record.stored_at, {}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    range_->hull.add(cells[i].point);
    cells_.emplace(cells[i].point, i);
  }
  measured_ = std::move(cells);
  for (Stored& stored : cubins) keep(std::move(stored));
  return true;
}

const FamilyBuilder::Stored& FamilyBuilder::cubin_among(const std::vector<Stored>& cubins, std::size_t unit,
                                                        const std::string& config) const {
  const auto found = std::ranges::find(cubins, unit, &Stored::unit);
  if (found == cubins.end()) throw BadInput("it lacks the cubin of " + config);
  return *found;
}

bool FamilyBuilder::is_superseded(const StoredWinner& winner, std::size_t origin, const TablePoint& point) const {
  if (!range_ || !range_->hull.holds(point)) return false;
  if (origin != range_->origin) return origin > range_->origin;
  if (winner.layer < range_->layer) return false;  // a user's own, before a pack
  const Timing timing = winner.record.workload.key.timing;
  if (timing != range_->timing) return timing > range_->timing;  // farther from how a server launches
  return winner.record.stored_at <= range_->stored_at;
}

}  // namespace moetune
