#include "runtime/family_builder.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "base/error.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"
#include "soundness/soundness.h"

namespace moetune {
namespace {

constexpr std::size_t kOwnProblems = 8;

// The family's problem with the usual values of the free dimensions; `any` of the family if there is none.
std::string usual_problem(const Kernel& kernel, const Problem& any) {
  Extents extents;
  for (const std::string& name : kernel.free_dimensions()) {
    for (const Dimension& dimension : kernel.schema()) {
      if (dimension.name == name) extents.push_back(dimension.default_value.number);
    }
  }
  try {
    return kernel.problem_of(kernel.specialization(any), extents).text();
  } catch (const BadInput&) {
    return any.text();
  }
}

}  // namespace

void rethrow_if_of_device(const std::runtime_error& error) {
  const auto* const of_driver = dynamic_cast<const cuda::CudaError*>(&error);
  using Kind = cuda::CudaError::Kind;
  if (of_driver != nullptr && of_driver->kind != Kind::image && of_driver->kind != Kind::request) throw;
}

// Units of a family have the same defines, whose values differ.
std::size_t FamilyBuilder::UnitHash::operator()(const CompileUnit& unit) const {
  std::size_t hash = 0;
  for (const auto& [name, value] : unit.defines) hash = hash * 31 + std::hash<std::string>()(value);
  return hash;
}

FamilyBuilder::FamilyBuilder(Family& family, Layers& layers, std::vector<std::string>& warnings)
    : family_(family), layers_(layers), warnings_(warnings), space_(shared_space(family.kernel().name())) {
  for (Variant& variant : family.variants_) variants_.emplace(variant.digest(), &variant);
}

std::unique_ptr<const DispatchTable> FamilyBuilder::build() {
  const FamilyContext& context = family_.context_;
  stored_ = layers_.family(family_.kernel().name(), family_.specialization(), context.allow_recorded);
  choose_hardware();
  for (std::size_t origin = 0; origin < origins_.size() && !range_; ++origin) take_range(origin);
  for (std::size_t origin = 0; origin < origins_.size(); ++origin) {
    for (const StoredWinner& winner : stored_.winners) {
      if (is_of(winner.record.workload.key.hardware, origin)) take(winner, origin);
    }
  }
  if (context.experiment.pinned_kernel == family_.kernel().name()) return pinned_table();
  if (context.experiment.defaults_only) measured_.clear();
  if (cubins_.empty()) throw_not_tuned();
  auto table = std::make_unique<const DispatchTable>(std::move(measured_), default_entries(), family_.defaults_);
  if (table->is_empty()) throw_not_tuned();
  return table;
}

void FamilyBuilder::throw_not_tuned() const {
  const std::string& kernel = family_.kernel().name();
  throw RuntimeError(MOETUNE_NOT_TUNED, "nothing is tuned for " + kernel + " " + family_.specialization() + " on " +
                                            family_.context_.device.key.name + "; run: moetune search " + kernel +
                                            " --problem " + usual_problem(family_.kernel(), family_.problem_));
}

// This very hardware; then, marked as inherited, that of the same architecture and the nearest number of SMs: what it
// was measured for serves wherever this one has no result of its own.
void FamilyBuilder::choose_hardware() {
  const HardwareKey& own = family_.context_.device.key;
  std::vector<Origin> known;
  const auto note = [&](const HardwareKey& key) {
    if (key.compute_capability != own.compute_capability) return;
    const bool is_known = std::ranges::any_of(known, [&](const Origin& origin) { return origin.key.is_same(key); });
    if (!is_known) known.push_back({key, key.text(), !key.is_same(own)});
  };
  for (const StoredWinner& winner : stored_.winners) note(winner.record.workload.key.hardware);
  for (const StoredRange& range : stored_.ranges) note(range.record.key.hardware);
  std::ranges::sort(known, {}, [&](const Origin& origin) {
    const std::int64_t more = std::int64_t{origin.key.sm_count} - own.sm_count;
    return std::tuple(origin.inherited, std::abs(more), origin.text);
  });
  for (Origin& origin : known) {
    const bool is_second_choice = origin.inherited && !origins_.empty() && origins_.back().inherited;
    if (!is_second_choice) origins_.push_back(std::move(origin));
  }
}

Problem FamilyBuilder::problem_of(const std::string& text) {
  const Kernel& kernel = family_.kernel();
  Problem problem = kernel.parse(text);
  kernel.check(problem);
  const bool is_own =
      std::ranges::any_of(own_problems_, [&](const Problem& own) { return family_.defaults_.are_alike(own, problem); });
  if (is_own) return problem;
  if (kernel.specialization(problem).text() != family_.specialization())
    throw BadInput("its problem is of another family than it is stored for: " + text);
  if (own_problems_.size() < kOwnProblems) own_problems_.push_back(problem);
  return problem;
}

// Many winners of a family share a configuration.
const FamilyBuilder::Launchable& FamilyBuilder::launchable(const std::string& config, const Problem& problem) {
  const auto known = launchables_.find(config);
  return known != launchables_.end() ? known->second : launchable(space_.parse_config(config), config, problem);
}

const FamilyBuilder::Launchable& FamilyBuilder::launchable(const Config& config, const std::string& text,
                                                           const Problem& problem) {
  Launchable& known = launchables_[text];
  if (known.launcher) return known;
  known.config = config;
  known.launcher = family_.kernel().launcher(known.config, problem, family_.context_.device.limits);
  known.unit = units_.try_emplace(known.launcher->unit(), units_.size()).first->second;
  return known;
}

const FamilyBuilder::Launchable& FamilyBuilder::matching(const std::string& config, const std::string& interface,
                                                         const Problem& problem) {
  const Launchable& found = launchable(config, problem);
  const Launcher* const launcher = found.launcher.get();
  const Extents extents = launcher->plan_extents(family_.kernel().extents_of(problem));
  std::set<Extents>& matched = matched_[{launcher, interface}];
  if (matched.contains(extents)) return found;
  LaunchPlan plan;
  launcher->plan(extents, Call{}, plan);
  if (interface_digest(launcher->unit(), plan) != interface)
    throw BadInput("its cubin takes other parameters than this version of moetune passes; tune it again");
  matched.insert(extents);
  return found;
}

void FamilyBuilder::require_runnable(const Config& config, const Problem& problem) {
  if (family_.defaults_.can_run(config, problem)) return;
  throw BadInput(
      config.text() + " cannot run at " + problem.text() + ": " +
      space_.why_illegal(config, expression_environment(problem, family_.context_.device.limits), Rules::must));
}

void FamilyBuilder::take(const StoredWinner& winner, std::size_t origin) {
  const FamilyWinner& record = winner.record;
  const Kernel& kernel = family_.kernel();
  const auto refuse = [&](const char* what, const char* why) {
    warnings_.push_back(layers_.path(winner.layer) + ": " + what + " of " + kernel.name() + " " +
                        record.workload.key.problem + " is not used: " + why);
  };
  const char* what = "the winner";
  try {
    const Problem problem = problem_of(record.workload.key.problem);
    if (const std::string wrong = why_unsound(record, kernel, problem); !wrong.empty()) throw BadInput(wrong);
    // A range table was certified with its own.
    if (!range_ && (origin == 0 || like_.empty())) like_ = kernel.extents_of(problem);
    take_winner(winner, origin, problem);
    what = "the default";
    take_default(winner, origin, problem);
  } catch (const std::runtime_error& error) {  // bad input, a damaged file or cubin
    rethrow_if_of_device(error);
    refuse(what, error.what());
  }
}

// A winner that is slower than the default serves nowhere; its cubin may still be a default's.
void FamilyBuilder::take_winner(const StoredWinner& winner, std::size_t origin, const Problem& problem) {
  const FamilyWinner& record = winner.record;
  const Launchable& own = matching(record.config, record.interface, problem);
  Stored stored{origin, winner.layer, record.cubin_digest, own.unit};
  const bool lost = record.default_time_us > 0 && record.time_us > record.default_time_us;
  const TablePoint point = family_.interface().table_point_of(problem);
  const bool is_other = taken_.contains(point) || is_superseded(winner, origin, point);  // something else decides there
  if (lost || is_other) {
    keep(std::move(stored));
    if (!is_other) {
      measured_.push_back({.point = point,
                           .met = met_default(record.default_time_us, record.default_config),
                           .inherited = origins_[origin].inherited,
                           .extents = family_.kernel().extents_of(problem)});
    }
    return;
  }
  const Variant* const variant = load(stored, *own.launcher, problem);
  keep(std::move(stored));
  taken_.insert(point);
  ChoiceSource source{record.workload.key.problem, record.time_us,    record.default_time_us,     origins_[origin].text,
                      origins_[origin].inherited,  record.stored_at,  layers_.path(winner.layer), std::nullopt,
                      record.workload.key.timing,  record.provisional};
  DispatchTable::Measured measured{
      .point = point,
      .entry = family_.entries_.add({variant, own.launcher, record.config, std::move(source)}),
      .met = met_default(record.default_time_us, record.default_config),
      .is_clear = DispatchTable::is_clear_win(record.time_us, record.default_time_us),
      .inherited = origins_[origin].inherited,
      .extents = family_.kernel().extents_of(problem)};
  const auto cell = cells_.find(point);
  if (cell == cells_.end()) {
    measured_.push_back(measured);
  } else {  // the search came later
    measured_[cell->second] = measured;
  }
}

std::optional<std::uint32_t> FamilyBuilder::met_default(double default_us, const std::string& config) {
  if (default_us <= 0) return std::nullopt;
  return family_.defaults_.number_met(config);
}

void FamilyBuilder::take_default(const StoredWinner& winner, std::size_t origin, const Problem& problem) {
  const FamilyWinner& record = winner.record;
  if (record.default_config.empty() || record.default_cubin_digest.empty()) return;
  // Most winners of a family come with the same default.
  if (!stored_defaults_.emplace(winner.layer, record.default_config, record.default_cubin_digest).second) return;
  const std::size_t unit = matching(record.default_config, record.default_interface, problem).unit;
  keep({origin, winner.layer, record.default_cubin_digest, unit});
}

// Many winners share a cubin, and every default is looked for among all of them.
void FamilyBuilder::keep(Stored stored) {
  if (known_.emplace(stored.layer, stored.digest, stored.unit).second) cubins_.push_back(std::move(stored));
}

Variant& FamilyBuilder::variant_of(const Stored& stored, const CompileUnit& unit) {
  const auto known = variants_.find(stored.digest);
  if (known != variants_.end()) return *known->second;
  Variant& made = family_.variants_.emplace_back(stored.digest, unit, layers_.cubin(stored.layer, stored.digest));
  variants_.emplace(stored.digest, &made);
  return made;
}

const Variant* FamilyBuilder::load(const Stored& stored, const Launcher& launcher, const Problem& problem) {
  Variant& variant = variant_of(stored, launcher.unit());
  const Extents extents = launcher.plan_extents(family_.kernel().extents_of(problem));
  std::set<Extents>& loaded = loaded_[{&variant, &launcher}];
  if (loaded.contains(extents)) return &variant;
  LaunchPlan plan;
  launcher.plan(extents, Call{}, plan);
  variant.add_entries(plan, family_.context_.device.limits);
  loaded.insert(extents);
  return &variant;
}

std::optional<std::uint32_t> FamilyBuilder::add_config(const Config& config, const std::string& text,
                                                       const Problem& problem) {
  const Launchable& own = launchable(config, text, problem);
  for (Stored& stored : cubins_) {
    if (stored.broken || stored.unit != own.unit) continue;
    try {
      const Variant* const variant = load(stored, *own.launcher, problem);
      ChoiceSource source;
      source.hardware = origins_[stored.origin].text;
      source.inherited = origins_[stored.origin].inherited;
      source.file = layers_.path(stored.layer);
      return family_.entries_.add({variant, own.launcher, text, std::move(source)});
    } catch (const std::runtime_error& error) {
      rethrow_if_of_device(error);
      stored.broken = true;
      warnings_.push_back(layers_.path(stored.layer) + ": the cubin of " + text + " is not used: " + error.what());
    }
  }
  return std::nullopt;
}

// By number: of all that can be a default, whatever problem is asked for.
std::vector<std::uint32_t> FamilyBuilder::default_entries() {
  const Kernel& kernel = family_.kernel();
  const Problem problem = kernel.problem_of(kernel.specialization(family_.problem_), like_);
  std::vector<std::uint32_t> entries;
  for (std::size_t i = 0; i < family_.defaults_.configs().size(); ++i) {
    const std::optional<std::uint32_t> entry =
        add_config(family_.defaults_.configs()[i], family_.defaults_.texts()[i], problem);
    entries.push_back(entry.value_or(Cell::kNone));
  }
  return entries;
}

// The pinned configuration. Launch parameters are not part of the cubin, so check here that they can run.
Config FamilyBuilder::pinned_config() const {
  const std::string& text = family_.context_.experiment.pinned_config;
  try {
    Config config = space_.parse_config(text);
    const Kernel& kernel = family_.kernel();
    const Problem problem =
        like_.empty() ? family_.problem_ : kernel.problem_of(kernel.specialization(family_.problem_), like_);
    const std::string illegal =
        space_.why_illegal(config, expression_environment(problem, family_.context_.device.limits), Rules::must);
    if (illegal.empty()) return config;
    throw BadInput(config.text() + " cannot run: " + illegal);
  } catch (const BadInput& error) {
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, std::string("MOETUNE_PIN: ") + error.what());
  }
}

std::unique_ptr<const DispatchTable> FamilyBuilder::pinned_table() {
  const Config config = pinned_config();
  if (const std::optional<std::uint32_t> entry = add_config(config, config.text(), family_.problem_))
    return std::make_unique<const DispatchTable>(Cell{*entry, ChoiceKind::pinned}, family_.defaults_);
  throw RuntimeError(MOETUNE_UNKNOWN_NAME, "MOETUNE_PIN: no file holds a cubin of " + config.text() +
                                               " for this family; tune it, or pin a stored one");
}

}  // namespace moetune
