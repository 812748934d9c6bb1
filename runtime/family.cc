#include "runtime/family.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/environment.h"
#include "base/error.h"
#include "base/profiler_range.h"
#include "kernels/registry.h"
#include "runtime/family_builder.h"
#include "runtime/range_choice.h"
#include "runtime/workspace_turn.h"

namespace moetune {
namespace {

Extents with_last(Extents extents, std::int64_t last) {
  if (extents.size() > 0) extents.back() = last;
  return extents;
}

void require_total(std::int64_t total) {
  if (total < 0)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT,
                       "the total is " + std::to_string(total) + "; it must be positive, or 0 for unknown");
}

std::int64_t required_fit(std::int64_t bytes) {
  if (bytes < std::numeric_limits<std::int64_t>::max()) return bytes;
  throw RuntimeError(MOETUNE_UNSUPPORTED, "a launch at these extents needs more counters than a workspace has");
}

std::uint64_t bits(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

using Addresses = std::array<std::uint64_t, LaunchKey::kMaxTensors>;

Addresses present_slots(const FamilyInterface& interface) {
  Addresses all{};
  for (std::size_t i = 0; i < interface.tensors().size(); ++i)
    all.at(i) = interface.tensors()[i].present ? ~std::uint64_t{0} : 0;
  return all;
}

Addresses addresses(LaunchTensors tensors, const Addresses& present) {
  Addresses all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = bits(tensors[i]) & present[i];
  return all;
}

std::array<std::int64_t, Extents::capacity()> padded(const Extents& extents) {
  std::array<std::int64_t, Extents::capacity()> all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i < extents.size() ? extents[i] : 0;
  return all;
}

}  // namespace

Experiment Experiment::from_environment() {
  Experiment experiment;
  if (const char* mode = environment_variable("MOETUNE_RUNTIME")) {
    if (std::string_view(mode) != "default")
      throw BadInput("MOETUNE_RUNTIME=" + std::string(mode) + " is unknown; it can be 'default'");
    experiment.defaults_only = true;
  }
  if (const char* pin = environment_variable("MOETUNE_PIN")) {
    const std::string text = pin;
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos)
      throw BadInput("MOETUNE_PIN=" + text + " must be KERNEL:CONFIG, as decode_attention:body=tma,...");
    experiment.pinned_kernel = text.substr(0, colon);
    experiment.pinned_config = text.substr(colon + 1);
    try {
      find_kernel(experiment.pinned_kernel);
    } catch (const BadInput& unknown) {
      throw RuntimeError(MOETUNE_UNKNOWN_NAME, "MOETUNE_PIN=" + text + ": " + unknown.what());
    }
    if (experiment.pinned_config.empty())
      throw BadInput("MOETUNE_PIN=" + text + " names no configuration; it is KERNEL:CONFIG");
  }
  return experiment;
}

Family::Family(const Kernel& kernel, Problem problem, FamilyContext context)
    : kernel_(kernel),
      problem_(std::move(problem)),
      specialization_(kernel.specialization(problem_).text()),
      interface_(kernel.family_interface(problem_)),
      context_(context),
      present_(present_slots(*interface_)),
      defaults_(kernel, *interface_, kernel.specialization(problem_), context.device.limits,
                kernel.extents_of(problem_)) {}

const DispatchTable* Family::prepare(Layers& layers, std::vector<std::string>& warnings) {
  FamilyBuilder builder(*this, layers, warnings);
  std::unique_ptr<const DispatchTable> made = keep_promises(builder.build(), warnings);
  if (const std::optional<Promise> broken = broken_promise(*made)) {
    warnings.push_back(kernel_.name() + " " + problem_text(broken->extents) +
                       ": the new winners would need more workspace than was promised; the present ones stay");
    return table();
  }
  for (const std::unique_ptr<const DispatchTable>& known : tables_) {
    if (*known == *made) return known.get();
  }
  tables_.push_back(std::move(made));
  return tables_.back().get();
}

// In an order that depends on what is said alone.
std::string Family::table_text(const DispatchTable& table) const {
  const auto choice = [&](std::uint32_t entry) {
    if (entry == Cell::kNone) return std::string("none");
    return entries_[entry].variant->digest() + " " + entries_[entry].config;
  };
  std::vector<std::string> lines;
  lines.reserve(table.measured().size() + table.default_entries().size());
  for (const DispatchTable::Measured& one : table.measured()) {
    std::string line;
    line.reserve(500);
    line = one.point.ragged ? "ragged" : "full";
    for (const std::int64_t position : one.point.position) line += " " + std::to_string(position);
    for (const std::int64_t extent : one.extents) line += "," + std::to_string(extent);
    line += " " + choice(one.entry) + (one.inherited ? " inherited" : "");
    if (one.met) line += (one.is_clear ? " beat " : " met ") + defaults_.texts()[*one.met];
    const bool has_loss = one.entry != Cell::kNone && entries_[one.entry].source.loss;
    if (has_loss) line += ' ' + std::to_string(std::bit_cast<std::uint64_t>(entries_[one.entry].source.loss->cell));
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  for (std::size_t number = 0; number < table.default_entries().size(); ++number)
    lines.push_back("default " + defaults_.texts()[number] + " " + choice(table.default_entries()[number]));
  std::string text = kernel_.name() + " " + specialization_ + "\n";
  if (const std::optional<Cell>& constant = table.constant()) text += choice(constant->entry) + "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

const FamilyEntry& Family::entry(const Choice& choice) const {
  if (choice.entry < entries_.size()) return entries_[choice.entry];
  throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the choice is not one that moetune_pick returned for this family");
}

std::string Family::problem_text(const Extents& extents, bool ragged) const {
  return problem_at(extents, ragged).value_or(specialization_);
}

std::optional<std::string> Family::problem_at(const Extents& extents, bool ragged) const {
  try {
    Problem problem = kernel_.problem_of(kernel_.specialization(problem_), extents);
    if (ragged) interface_->make_ragged(problem);
    return problem.text();
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

void Family::throw_miss(const Extents& extents) const {
  const std::string problem = problem_text(extents);
  throw RuntimeError(MOETUNE_NOT_TUNED, "nothing is tuned for " + kernel_.name() + " " + problem +
                                            "; run: moetune search " + kernel_.name() + " --problem " + problem);
}

// The extents whose winner would lie at the place of a pick: a ragged batch that a search makes is about half full.
Extents Family::extents_to_tune(const TablePoint& point, const Extents& extents) const {
  return point.ragged ? interface_->extents_at(point, extents) : extents;
}

Choice Family::pick(const Extents& extents, std::int64_t total) const {
  interface_->check(extents);
  require_total(total);
  const TablePoint point = interface_->table_point(extents, total);
  const Cell cell = table()->find(point, extents);
  context_.usage.count_pick(cell, extents_to_tune(point, extents), point.ragged);
  if (cell.entry == Cell::kNone) throw_miss(extents);
  return {cell.entry, cell.kind, extents};
}

Choice Family::pick_range(const Extents& extents, std::int64_t last, std::int64_t total) const {
  const Extents widest = with_last(extents, last);
  interface_->check(extents);
  interface_->check(widest);
  if (extents.size() == 0 || extents.back() > last)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the range ends at " + std::to_string(last) + ", before it begins");
  require_total(total);
  const TablePoint point = interface_->table_point(widest, total);
  const auto point_of = [&](const Extents& here) {
    TablePoint moved = point;
    moved.position.back() = interface_->table_point(here, total).position.back();
    return moved;
  };
  const auto [cell, missed] = choose_for_range(table()->cells_between(extents.back(), widest, point_of), entries_);
  context_.usage.count_pick(cell, with_last(extents_to_tune(point, extents), missed), point.ragged);
  if (cell.entry == Cell::kNone) throw_miss(widest);
  return {cell.entry, cell.kind, widest};
}

std::int64_t Family::workspace_at(std::uint32_t entry, const Extents& extents) const {
  LaunchPlan plan;
  const Launcher& launcher = *entries_[entry].launcher;
  launcher.plan(launcher.plan_extents(extents), Call{}, plan);
  const WorkspaceLayout layout(plan);
  return layout.fits() ? layout.bytes : kUnfit;
}

std::int64_t Family::workspace_bytes(const Choice& choice) const {
  entry(choice);
  interface_->check(choice.extents);
  return required_fit(workspace_at(choice.entry, choice.extents));
}

const Family::Promise* Family::find_promise(const Extents& extents) const {
  const auto found = std::ranges::find(promises_, extents, &Promise::extents);
  return found == promises_.end() ? nullptr : &*found;
}

void Family::promise(const Extents& extents, std::int64_t bytes) {
  if (promises_.size() >= MOETUNE_MAX_PROMISES)
    throw RuntimeError(MOETUNE_UNSUPPORTED,
                       kernel_.name() + " " + problem_text(extents) + ": workspace was promised for " +
                           std::to_string(promises_.size()) +
                           " other extents, the most there are; ask for the largest that are served");
  promises_.push_back({extents, bytes});
}

void Family::offer_workspace(const Extents& extents, std::size_t bytes) {
  interface_->check(extents);
  const auto offered =
      static_cast<std::int64_t>(std::min<std::size_t>(bytes, std::numeric_limits<std::int64_t>::max() - 1));
  const auto known = std::ranges::find(promises_, extents, &Promise::extents);
  const bool is_known = known != promises_.end();
  const std::int64_t least = is_known ? known->bytes : required_fit(workspace_within(*table(), extents));
  if (offered < least)
    throw RuntimeError(MOETUNE_OUT_OF_MEMORY, "an offer of " + std::to_string(bytes) + " bytes for " + kernel_.name() +
                                                  " " + problem_text(extents) + " is less than the " +
                                                  std::to_string(least) +
                                                  (is_known ? " that were promised" : " that its choices need"));
  if (is_known)
    known->bytes = offered;
  else
    promise(extents, offered);
}

std::int64_t Family::wanted_workspace(const Extents& extents) const {
  interface_->check(extents);
  if (const Promise* const known = find_promise(extents)) return std::max(known->bytes, known->wanted);
  return required_fit(workspace_within(*table(), extents));
}

std::int64_t Family::promise_workspace(const Extents& extents) {
  interface_->check(extents);
  if (const Promise* const known = find_promise(extents)) return known->bytes;
  const std::int64_t bytes = required_fit(workspace_within(*table(), extents));
  promise(extents, bytes);
  return bytes;
}

std::optional<Family::Promise> Family::broken_promise(const DispatchTable& table) const {
  for (const Promise& promise : promises_) {
    const std::int64_t needed = workspace_within(table, promise.extents);
    if (needed > promise.bytes) return Promise{promise.extents, needed};
  }
  return std::nullopt;
}

void Family::require_promised(const DispatchTable& table) const {
  const std::optional<Promise> broken = broken_promise(table);
  if (!broken) return;
  throw RuntimeError(MOETUNE_OUT_OF_MEMORY, "that state is from before a workspace was promised for " + kernel_.name() +
                                                " " + problem_text(broken->extents) + "; it needs " +
                                                (broken->bytes == kUnfit ? "more counters than a workspace has"
                                                                         : std::to_string(broken->bytes) + " bytes") +
                                                "; refresh to a later one");
}

void Family::check_pointers(const LaunchKey& key) const {
  const std::span<const TensorSlot> slots = interface_->tensors();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (key.tensors[i] % static_cast<std::uint64_t>(slots[i].alignment) == 0) continue;
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "tensor '" + slots[i].name.text() + "' is not aligned to " +
                                                     std::to_string(slots[i].alignment) + " bytes");
  }
  if (key.workspace % kWorkspaceAlignment != 0)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the workspace is not aligned to 256 bytes");
}

BoundPlan Family::bind(const FamilyEntry& entry, const LaunchKey& key, const Extents& plan_extents,
                       std::int64_t& needed) const {
  LaunchPlan plan;
  entry.launcher->plan(plan_extents, key.call, plan);
  const WorkspaceLayout layout(plan);
  if (!layout.fits()) throw RuntimeError(MOETUNE_UNSUPPORTED, "the launch needs more counters than a workspace has");
  needed = plan.scratch.empty() ? 0 : layout.bytes;
  std::array<cuda::Function, decltype(plan.launches)::capacity()> functions{};
  for (std::size_t i = 0; i < plan.launches.size(); ++i) functions[i] = entry.variant->function(plan.launches[i].entry);
  const auto address_of = [&](std::string_view name) -> cuda::Address {
    for (std::size_t i = 0; i < plan.scratch.size(); ++i) {
      if (plan.scratch[i].name.view() != name) continue;
      if (key.workspace == 0) throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the launch needs a workspace");
      return key.workspace + static_cast<cuda::Address>(layout.offsets[i]);
    }
    const std::span<const TensorSlot> slots = interface_->tensors();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].name.view() != name) continue;
      if (key.tensors[i] != 0) return key.tensors[i];
      throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "tensor '" + std::string(name) + "' is null");
    }
    return 0;
  };
  const auto encode = [this](const TensorMap& map, cuda::Address base) { return maps_.encoded(map, base); };
  const auto symbol_of = [&](const Memset& memset) { return entry.variant->symbol(memset); };
  return BoundPlan(plan, {functions.data(), plan.launches.size()}, std::cref(address_of), std::cref(symbol_of), encode);
}

void Family::require_room(const Choice& choice, std::int64_t needed, std::size_t given) const {
  if (needed <= static_cast<std::int64_t>(std::min<std::size_t>(given, std::numeric_limits<std::int64_t>::max())))
    return;
  throw RuntimeError(MOETUNE_OUT_OF_MEMORY, "the workspace has " + std::to_string(given) + " bytes; the launch needs " +
                                                std::to_string(needed));
}

void Family::launch_anew(LaunchCache::Held& place, const FamilyEntry& chosen, const LaunchKey& key,
                         const Choice& choice, std::size_t workspace_bytes, cuda::StreamRef stream) const {
  interface_->check(choice.extents);
  interface_->check_call(choice.extents, key.call);
  check_pointers(key);
  std::int64_t needed = 0;
  const BoundPlan plan = bind(chosen, key, chosen.launcher->plan_extents(choice.extents), needed);
  require_room(choice, needed, workspace_bytes);
  place.fill({key, choice.extents, needed, plan});
  const WorkspaceTurn turn(needed > 0 ? key.workspace : 0);
  plan.enqueue(stream);
}

void Family::launch(const Choice& choice, const Call& call, LaunchTensors tensors, void* workspace,
                    std::size_t workspace_bytes, cuda::StreamRef stream) {
  const ProfilerRange range([this] { return kernel_.name(); });
  const FamilyEntry& chosen = entry(choice);
  // Made in place, so that nothing is zeroed first.
  const LaunchKey key{choice.entry, bits(workspace), padded(chosen.launcher->plan_extents(choice.extents)),
                      addresses(tensors, present_), call};
  LaunchCache::Held place = launches_.hold(key);
  if (!place.holds_key()) {
    launch_anew(place, chosen, key, choice, workspace_bytes, stream);
  } else {
    LaunchCache::Bound& known = *place.get();
    if (!(known.checked == choice.extents)) {
      interface_->check(choice.extents);
      interface_->check_call(choice.extents, call);
      known.checked = choice.extents;
    }
    require_room(choice, known.workspace_bytes, workspace_bytes);
    const WorkspaceTurn turn(known.workspace_bytes > 0 ? key.workspace : 0);
    known.plan.enqueue(stream);
  }
  context_.usage.count_launch();
}

}  // namespace moetune
