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
  for (const StoredWinner& winner : winners_) {
    if (winner.record.workload.key.hardware.text() == hardware_) take(winner);
  }
  if (context.experiment.pinned_kernel == family_.kernel().name()) return pinned_table();
  if (context.experiment.defaults_only) measured_.clear();
  if (cubins_.empty()) throw_not_tuned();
  const auto default_there = [this](const TablePoint& point) { return default_at(point); };
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

std::unique_ptr<const Launcher> FamilyBuilder::make_matching(const std::string& config,
                                                             const std::string& interface,
                                                             const Problem& problem) const {
  const Kernel& kernel = family_.kernel();
  std::unique_ptr<const Launcher> launcher =
      kernel.launcher(space_.parse_config(config), problem, family_.context_.device.limits);
  LaunchPlan plan;
  launcher->plan(kernel.extents_of(problem), Call{}, plan);
  if (interface_digest(launcher->unit(), plan) == interface) return launcher;
  throw BadInput("its cubin takes other parameters than this version of moetune passes; tune it again");
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

// A winner that is slower than the default serves nowhere; its cubin may still be a default's.
void FamilyBuilder::take_winner(const StoredWinner& winner, const Problem& problem) {
  const FamilyWinner& record = winner.record;
  Stored stored{winner.layer, record.cubin, record.cubin_digest, {}};
  auto launcher = make_matching(record.config, record.interface, problem);
  stored.unit = launcher->unit();
  const Variant* const variant = load(stored, *launcher, problem);
  cubins_.push_back(std::move(stored));
  if (record.default_time_us > 0 && record.time_us > record.default_time_us) return;
  const TablePoint point = family_.interface().table_point_of(problem);
  std::vector<std::int64_t> place(point.position.begin(), point.position.end());
  place.push_back(point.uneven);
  if (!taken_.insert(std::move(place)).second) return;
  ChoiceSource source{record.workload.key.problem,
                      record.time_us,
                      record.default_time_us,
                      hardware_,
                      inherited_,
                      record.stored_at,
                      layers_.path(winner.layer)};
  measured_.push_back(
      {point, family_.add_entry({variant, std::move(launcher), record.config, std::move(source)})});
}

void FamilyBuilder::take_default(const StoredWinner& winner, const Problem& problem) {
  const FamilyWinner& record = winner.record;
  if (record.fallback_config.empty() || record.fallback_cubin == 0) return;
  // Most winners of a family come with the same default.
  if (!stored_defaults_.emplace(winner.layer, record.fallback_config, record.fallback_cubin_digest).second)
    return;
  Stored fallback{winner.layer, record.fallback_cubin, record.fallback_cubin_digest, {}};
  fallback.unit = make_matching(record.fallback_config, record.fallback_interface, problem)->unit();
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
      return family_.add_entry({variant, std::move(launcher), config.text(), std::move(source)});
    } catch (const std::runtime_error& error) {
      stored.broken = true;
      warnings_.push_back(layers_.path(stored.layer) + ": the cubin of " + config.text() +
                          " is not used: " + error.what());
    }
  }
  return std::nullopt;
}

std::optional<DispatchTable::Default> FamilyBuilder::default_at(const TablePoint& point) {
  const Kernel& kernel = family_.kernel();
  try {
    const FamilyInterface& interface = family_.interface();
    Problem problem =
        kernel.problem_of(kernel.specialization(family_.problem_), interface.extents_at(point, like_));
    if (point.uneven) interface.make_uneven(problem);
    const std::optional<Config> config =
        space_.default_config(expression_environment(problem, family_.context_.device.limits));
    if (!config) return std::nullopt;
    return default_of(*config, problem);
  } catch (const BadInput&) {  // no problem has such extents
    return std::nullopt;
  }
}

DispatchTable::Default FamilyBuilder::default_of(const Config& config, const Problem& problem) {
  std::string text = config.text();
  const auto known = defaults_.find(text);
  if (known != defaults_.end()) return known->second;
  const DispatchTable::Default made{static_cast<std::uint32_t>(defaults_.size()),
                                    add_config(config, problem, {}).value_or(Cell::kNone)};
  return defaults_.emplace(std::move(text), made).first->second;
}

DispatchTable FamilyBuilder::pinned_table() {
  const Config config = space_.parse_config(family_.context_.experiment.pinned_config);
  const std::optional<std::uint32_t> entry = add_config(config, family_.problem_, {});
  if (entry) return DispatchTable::constant({*entry, ChoiceKind::pinned});
  throw RuntimeError(MOETUNE_UNKNOWN_NAME, "MOETUNE_PIN: no file holds a cubin of " + config.text() +
                                               " for this family; tune it, or pin a stored one");
}

}  // namespace moetune
