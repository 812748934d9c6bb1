#include "runtime/family_builder.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "base/error.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"

namespace moetune {
namespace {

// The family's problem with the usual values of the free dimensions; `any` of the family if there is none.
std::string usual_problem(const Kernel& kernel, const Problem& any) {
  Extents extents;
  for (const std::string& name : kernel.free_dimensions()) {
    for (const Dimension& dimension : kernel.schema()) {
      if (dimension.name == name) extents.push_back(dimension.fallback.number);
    }
  }
  try {
    return kernel.problem_of(kernel.specialization(any), extents).text();
  } catch (const BadInput&) {
    return any.text();
  }
}

}  // namespace

FamilyBuilder::FamilyBuilder(Family& family, Layers& layers, std::vector<std::string>& warnings)
    : family_(family), layers_(layers), warnings_(warnings), space_(shared_space(family.kernel().name())) {}

DispatchTable FamilyBuilder::build() {
  const FamilyContext& context = family_.context_;
  winners_ = layers_.winners(family_.kernel().name(), family_.specialization(), context.allow_recorded);
  choose_hardware();
  take_range();
  for (const StoredWinner& winner : winners_) {
    if (winner.record.workload.key.hardware.text() == hardware_) take(winner);
  }
  if (context.experiment.pinned_kernel == family_.kernel().name()) return pinned_table();
  if (context.experiment.defaults_only) measured_.clear();
  if (cubins_.empty()) throw_not_tuned();
  FamilyDefaults defaults(family_.kernel(), family_.interface(),
                          family_.kernel().specialization(family_.problem_), context.device.limits, like_);
  const auto default_there = [&](const TablePoint& point) { return default_at(defaults, point); };
  const DispatchTable::Grid grid{family_.interface().table_point(like_, 0).position.size(),
                                 family_.interface().has_uneven()};
  DispatchTable table = DispatchTable::build(measured_, grid, default_there);
  const auto serves = [](const Cell& cell) { return cell.entry != Cell::kNone; };
  if (!std::any_of(table.cells().begin(), table.cells().end(), serves)) throw_not_tuned();
  return table;
}

void FamilyBuilder::throw_not_tuned() const {
  const std::string& kernel = family_.kernel().name();
  throw RuntimeError(MOETUNE_NOT_TUNED, "nothing is tuned for " + kernel + " " + family_.specialization() +
                                            " on " + family_.context_.device.key.name +
                                            "; run: moetune search " + kernel + " --problem " +
                                            usual_problem(family_.kernel(), family_.problem_));
}

// Winners of this very hardware; else, marked as inherited, of the same architecture and the nearest number of
// SMs.
void FamilyBuilder::choose_hardware() {
  const HardwareKey& own = family_.context_.device.key;
  std::optional<std::pair<int, std::string>> best;
  for (const StoredWinner& winner : winners_) {
    const HardwareKey& key = winner.record.workload.key.hardware;
    if (key.compute_capability != own.compute_capability) continue;
    const std::string text = key.text();
    const bool same = text == own.text();
    const std::pair candidate{same ? -1 : std::abs(key.sm_count - own.sm_count), text};
    if (!best || candidate < *best) best = candidate;
  }
  if (!best) return;
  hardware_ = best->second;
  inherited_ = best->first >= 0;
}

// Many winners of a family share a configuration, and a launcher serves all of the family.
std::shared_ptr<const Launcher> FamilyBuilder::matching_launcher(const std::string& config,
                                                                 const std::string& interface,
                                                                 const Problem& problem) {
  const Kernel& kernel = family_.kernel();
  Matched& known = matched_[{config, interface}];
  if (!known.launcher)
    known.launcher = kernel.launcher(space_.parse_config(config), problem, family_.context_.device.limits);
  const Extents extents = known.launcher->plan_extents(kernel.extents_of(problem));
  if (std::find(known.extents.begin(), known.extents.end(), extents) != known.extents.end())
    return known.launcher;
  LaunchPlan plan;
  known.launcher->plan(extents, Call{}, plan);
  if (interface_digest(known.launcher->unit(), plan) != interface)
    throw BadInput("its cubin takes other parameters than this version of moetune passes; tune it again");
  known.extents.push_back(extents);
  return known.launcher;
}

void FamilyBuilder::take(const StoredWinner& winner) {
  const FamilyWinner& record = winner.record;
  const Kernel& kernel = family_.kernel();
  const auto refuse = [&](const char* what, const char* why) {
    warnings_.push_back(layers_.path(winner.layer) + ": " + what + " of " + kernel.name() + " " +
                        record.workload.key.problem + " is not used: " + why);
  };
  const char* what = "the winner";
  try {
    const Problem problem =
        parse_problem(kernel.name(), kernel.schema(), nullptr, record.workload.key.problem);
    kernel.check(problem);
    if (kernel.specialization(problem).text() != family_.specialization())
      throw BadInput("its problem is of another family than it is stored for");
    like_ = kernel.extents_of(problem);
    take_winner(winner, problem);
    what = "the default";
    take_default(winner, problem);
  } catch (const std::runtime_error& error) {  // bad input, a damaged file, the driver's, or no room
    refuse(what, error.what());
  }
}

void FamilyBuilder::take_range() {
  for (const StoredRange& range :
       layers_.ranges(family_.kernel().name(), family_.specialization(), family_.context_.allow_recorded)) {
    if (range.record.key.hardware.text() != hardware_) continue;
    try {
      if (take_range(range)) return;
    } catch (const std::runtime_error& error) {  // bad input, a damaged file, the driver's, or no room
      warnings_.push_back(layers_.path(range.layer) + ": the range table of " + family_.kernel().name() +
                          " " + family_.specialization() + " is not used: " + error.what());
    }
  }
}

bool FamilyBuilder::take_range(const StoredRange& range) {
  const Kernel& kernel = family_.kernel();
  const RangeTable table = RangeTable::parse(range.record.table, "it");
  if (table.contended || table.cells.empty() || range.record.variants.empty()) return false;
  std::vector<Stored> cubins;
  std::vector<DispatchTable::Measured> cells;
  Extents like;
  for (const RangeCell& cell : table.cells) {
    const Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, cell.problem);
    kernel.check(problem);
    if (kernel.specialization(problem).text() != family_.specialization())
      throw BadInput("a cell of it is of another family");
    const Config config = space_.parse_config(cell.config);
    const std::string illegal = space_.why_illegal(
        config, expression_environment(problem, family_.context_.device.limits), Rules::must);
    if (!illegal.empty()) throw BadInput(cell.config + " cannot run at " + cell.problem + ": " + illegal);
    like = kernel.extents_of(problem);
    if (cubins.empty()) {
      for (const FamilyRange::Variant& variant : range.record.variants) {
        Stored stored{range.layer, variant.cubin, variant.cubin_digest, {}};
        stored.unit = matching_launcher(variant.config, variant.interface, problem)->unit();
        cubins.push_back(std::move(stored));
      }
    }
    auto launcher = kernel.launcher(config, problem, family_.context_.device.limits);
    const auto stored = std::find_if(cubins.begin(), cubins.end(),
                                     [&](const Stored& one) { return one.unit == launcher->unit(); });
    if (stored == cubins.end()) throw BadInput("it lacks the cubin of " + cell.config);
    const Variant* const variant = load(*stored, *launcher, problem);
    ChoiceSource source{cell.problem,
                        cell.time_us,
                        cell.default_us,
                        hardware_,
                        inherited_,
                        range.record.stored_at,
                        layers_.path(range.layer),
                        RangeLoss{table.ranges, table.bound, cell.regret(), table.certificate},
                        range.record.key.timing};
    const TablePoint point = family_.interface().table_point_of(problem);
    cells.push_back(
        {point, family_.entries_.add({variant, std::move(launcher), cell.config, std::move(source)}), true});
  }
  like_ = like;
  range_stored_at_ = range.record.stored_at;
  range_timing_ = range.record.key.timing;
  range_low_ = range_high_ = cells.front().point;
  for (const DispatchTable::Measured& cell : cells) {
    for (std::size_t axis = 0; axis < cell.point.position.size(); ++axis) {
      range_low_.position[axis] = std::min(range_low_.position[axis], cell.point.position[axis]);
      range_high_.position[axis] = std::max(range_high_.position[axis], cell.point.position[axis]);
    }
  }
  measured_ = std::move(cells);
  for (Stored& stored : cubins) cubins_.push_back(std::move(stored));
  return true;
}

bool FamilyBuilder::is_superseded(const StoredWinner& winner, const TablePoint& point) const {
  if (range_stored_at_.empty()) return false;
  const Timing timing = winner.record.workload.key.timing;
  if (timing < range_timing_) return false;  // closer to how a server launches
  if (timing == range_timing_ && winner.record.stored_at > range_stored_at_) return false;
  for (std::size_t axis = 0; axis < point.position.size(); ++axis) {
    const std::int64_t position = point.position[axis];
    if (position < range_low_.position[axis] || position > range_high_.position[axis]) return false;
  }
  return true;
}

// A winner that is slower than the default serves nowhere; its cubin may still be a default's.
void FamilyBuilder::take_winner(const StoredWinner& winner, const Problem& problem) {
  const FamilyWinner& record = winner.record;
  Stored stored{winner.layer, record.cubin, record.cubin_digest, {}};
  auto launcher = matching_launcher(record.config, record.interface, problem);
  stored.unit = launcher->unit();
  const TablePoint point = family_.interface().table_point_of(problem);
  if (is_superseded(winner, point)) {
    cubins_.push_back(std::move(stored));
    return;
  }
  const Variant* const variant = load(stored, *launcher, problem);
  cubins_.push_back(std::move(stored));
  if (record.default_time_us > 0 && record.time_us > record.default_time_us) return;
  std::vector<std::int64_t> place(point.position.begin(), point.position.end());
  place.push_back(point.uneven);
  if (!taken_.insert(std::move(place)).second) return;
  ChoiceSource source{record.workload.key.problem,
                      record.time_us,
                      record.default_time_us,
                      hardware_,
                      inherited_,
                      record.stored_at,
                      layers_.path(winner.layer),
                      std::nullopt,
                      record.workload.key.timing};
  const auto same_place = [&](const DispatchTable::Measured& one) {
    return one.of_range && one.point.uneven == point.uneven &&
           std::ranges::equal(one.point.position, point.position);
  };
  std::erase_if(measured_, same_place);  // of a search that came later than the range table
  measured_.push_back(
      {point, family_.entries_.add({variant, std::move(launcher), record.config, std::move(source)})});
}

void FamilyBuilder::take_default(const StoredWinner& winner, const Problem& problem) {
  const FamilyWinner& record = winner.record;
  if (record.fallback_config.empty() || record.fallback_cubin == 0) return;
  // Most winners of a family come with the same default.
  if (!stored_defaults_.emplace(winner.layer, record.fallback_config, record.fallback_cubin_digest).second)
    return;
  Stored fallback{winner.layer, record.fallback_cubin, record.fallback_cubin_digest, {}};
  fallback.unit = matching_launcher(record.fallback_config, record.fallback_interface, problem)->unit();
  cubins_.push_back(std::move(fallback));
}

const Variant* FamilyBuilder::load(const Stored& stored, const Launcher& launcher, const Problem& problem) {
  const auto known = std::find_if(family_.variants_.begin(), family_.variants_.end(),
                                  [&](const Variant& variant) { return variant.digest() == stored.digest; });
  Variant& variant = known != family_.variants_.end()
                         ? *known
                         : family_.variants_.emplace_back(stored.digest, stored.unit,
                                                          layers_.cubin(stored.layer, stored.cubin));
  LaunchPlan plan;
  launcher.plan(family_.kernel().extents_of(problem), Call{}, plan);
  variant.add_entries(plan, family_.context_.device.limits);
  return &variant;
}

std::optional<std::uint32_t> FamilyBuilder::add_config(const Config& config, const Problem& problem,
                                                       ChoiceSource source) {
  auto launcher = family_.kernel().launcher(config, problem, family_.context_.device.limits);
  for (Stored& stored : cubins_) {
    if (stored.broken || stored.unit != launcher->unit()) continue;
    try {
      const Variant* const variant = load(stored, *launcher, problem);
      source.hardware = hardware_;
      source.inherited = inherited_;
      source.file = layers_.path(stored.layer);
      return family_.entries_.add({variant, std::move(launcher), config.text(), std::move(source)});
    } catch (const std::runtime_error& error) {
      stored.broken = true;
      warnings_.push_back(layers_.path(stored.layer) + ": the cubin of " + config.text() +
                          " is not used: " + error.what());
    }
  }
  return std::nullopt;
}

std::optional<DispatchTable::Default> FamilyBuilder::default_at(FamilyDefaults& defaults,
                                                                const TablePoint& point) {
  try {
    const Config* const config = defaults.at(point);
    if (config == nullptr) return std::nullopt;
    const auto known = defaults_.find(config);
    if (known != defaults_.end()) return known->second;
    return defaults_.emplace(config, default_of(*config, defaults.problem())).first->second;
  } catch (const BadInput&) {  // no problem has such extents
    return std::nullopt;
  }
}

// Several of the space's defaults may be one configuration.
DispatchTable::Default FamilyBuilder::default_of(const Config& config, const Problem& problem) {
  std::string text = config.text();
  const auto known = default_texts_.find(text);
  if (known != default_texts_.end()) return known->second;
  const DispatchTable::Default made{static_cast<std::uint32_t>(default_texts_.size()),
                                    add_config(config, problem, {}).value_or(Cell::kNone)};
  return default_texts_.emplace(std::move(text), made).first->second;
}

// What belongs to the launch is of no cubin's: a stored one could be pinned with values that it does not run with.
Config FamilyBuilder::pinned_config() const {
  const std::string& text = family_.context_.experiment.pinned_config;
  try {
    Config config = space_.parse_config(text);
    const Kernel& kernel = family_.kernel();
    const Problem problem =
        like_.empty() ? family_.problem_ : kernel.problem_of(kernel.specialization(family_.problem_), like_);
    const std::string illegal = space_.why_illegal(
        config, expression_environment(problem, family_.context_.device.limits), Rules::must);
    if (illegal.empty()) return config;
    throw BadInput(config.text() + " cannot run: " + illegal);
  } catch (const BadInput& error) {
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, std::string("MOETUNE_PIN: ") + error.what());
  }
}

DispatchTable FamilyBuilder::pinned_table() {
  const Config config = pinned_config();
  const std::optional<std::uint32_t> entry = add_config(config, family_.problem_, {});
  if (entry) return DispatchTable::constant({*entry, ChoiceKind::pinned});
  throw RuntimeError(MOETUNE_UNKNOWN_NAME, "MOETUNE_PIN: no file holds a cubin of " + config.text() +
                                               " for this family; tune it, or pin a stored one");
}

}  // namespace moetune
