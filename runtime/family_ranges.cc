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
      warnings_.push_back(layers_.path(range.layer) + ": the range table of " + family_.kernel().name() +
                          " " + family_.specialization() + " is not used: " + error.what());
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
  ChoiceSource source;
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const RangeCell& cell = table.cells[i];
    const Problem& problem = sound.problems[i];
    if (i == 0) problem_of(cell.problem);  // of this family
    const std::shared_ptr<const Launcher> launcher = launchable(cell.config, problem).launcher;
    require_runnable(launchable(cell.config, problem).config, problem);
    like = kernel.extents_of(problem);
    if (cubins.empty()) {
      for (const FamilyRange::Variant& variant : range.record.variants) {
        Stored stored{origin, range.layer, variant.cubin_digest, {}};
        stored.unit = matching_launcher(variant.config, variant.interface, problem)->unit();
        cubins.push_back(std::move(stored));
      }
    }
    const Variant* const variant = load(cubin_among(cubins, *launcher, cell.config), *launcher, problem);
    source = {cell.problem,
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
                     .entry = family_.entries_.add({variant, launcher, cell.config, source}),
                     .of_range = true,
                     .inherited = origins_[origin].inherited});
  }
  expected_ = take_expected(table, sound.problems.front(), source, cubins);
  like_ = like;
  range_ = {origin, range.layer, range.record.key.timing, range.record.stored_at, {}};
  for (const DispatchTable::Measured& cell : cells) range_->add(cell.point);
  measured_ = std::move(cells);
  for (Stored& stored : cubins) keep(std::move(stored));
  return true;
}

const FamilyBuilder::Stored& FamilyBuilder::cubin_among(const std::vector<Stored>& cubins,
                                                        const Launcher& launcher,
                                                        const std::string& config) const {
  const auto found = std::ranges::find(cubins, launcher.unit(), &Stored::unit);
  if (found == cubins.end()) throw BadInput("it lacks the cubin of " + config);
  return *found;
}

std::vector<ExpectedGrid> FamilyBuilder::take_expected(const RangeTable& table, const Problem& problem,
                                                       const ChoiceSource& source,
                                                       const std::vector<Stored>& cubins) {
  const std::size_t axes = family_.interface().table_point_of(problem).position.size();
  ChoiceSource expected = source;
  expected.problem.clear();
  expected.time_us = expected.default_us = 0;
  expected.loss->cell.reset();
  std::vector<std::uint32_t> entries;
  for (const std::string& config : table.expected.configs) {
    const Launchable& known = launchable(config, problem);
    require_runnable(known.config, problem);
    const Variant* const variant =
        load(cubin_among(cubins, *known.launcher, config), *known.launcher, problem);
    entries.push_back(family_.entries_.add({variant, known.launcher, config, expected}));
  }
  std::vector<ExpectedGrid> grids = table.expected.grids;
  for (ExpectedGrid& grid : grids) {
    if (grid.axes.size() != axes) throw BadInput("it expects choices on a grid of another kernel");
    for (std::uint32_t& choice : grid.choices)
      choice = choice == ExpectedGrid::kNone ? choice : entries[choice];
  }
  return grids;
}

void FamilyBuilder::TakenRange::add(const TablePoint& point) {
  const auto is_of_kind = [&](const Box& box) { return box.low.uneven == point.uneven; };
  const auto found = std::ranges::find_if(boxes, is_of_kind);
  Box& box = found != boxes.end() ? *found : boxes.emplace_back(point, point);
  for (std::size_t axis = 0; axis < point.position.size(); ++axis) {
    box.low.position[axis] = std::min(box.low.position[axis], point.position[axis]);
    box.high.position[axis] = std::max(box.high.position[axis], point.position[axis]);
  }
}

bool FamilyBuilder::TakenRange::holds(const TablePoint& point) const {
  return std::ranges::any_of(boxes, [&](const Box& box) {
    bool is_within = box.low.uneven == point.uneven;
    for (std::size_t axis = 0; axis < point.position.size(); ++axis)
      is_within = is_within && point.position[axis] >= box.low.position[axis] &&
                  point.position[axis] <= box.high.position[axis];
    return is_within;
  });
}

bool FamilyBuilder::is_superseded(const StoredWinner& winner, std::size_t origin,
                                  const TablePoint& point) const {
  if (!range_ || !range_->holds(point)) return false;
  if (origin != range_->origin) return origin > range_->origin;
  if (winner.layer < range_->layer) return false;  // a user's own, before a pack
  const Timing timing = winner.record.workload.key.timing;
  if (timing != range_->timing) return timing > range_->timing;  // farther from how a server launches
  return winner.record.stored_at <= range_->stored_at;
}

}  // namespace moetune
