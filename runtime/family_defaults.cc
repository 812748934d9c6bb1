#include "runtime/family_defaults.h"

#include <algorithm>

#include "kernels/kernel_space.h"

namespace moetune {

FamilyDefaults::FamilyDefaults(const Kernel& kernel, const FamilyInterface& interface,
                               const Assignment& specialization, const DeviceLimits& limits,
                               const Extents& like)
    : interface_(interface),
      space_(shared_space(kernel.name())),
      limits_(limits),
      like_(like),
      even_(kernel.problem_of(specialization, like)),
      ragged_(even_) {
  interface_.make_ragged(ragged_);
  const std::vector<std::string> varying = interface_.varying_dimensions();
  for (std::size_t place = 0; place < even_.dims.size(); ++place) {
    const std::string& name = even_.dims.begin()[static_cast<std::ptrdiff_t>(place)].first;
    varies_.push_back(std::find(varying.begin(), varying.end(), name) != varying.end());
    if (!varies_.back()) continue;
    varying_.push_back(place);
    names_.push_back("problem." + name);
  }
}

const Config* FamilyDefaults::at(const TablePoint& point) {
  Problem& problem = point.ragged ? ragged_ : even_;
  if (!interface_.set_extents(problem, interface_.extents_at(point, like_))) return nullptr;
  BoundDefaults& defaults = bound(problem);
  last_ = &problem;
  return defaults.find();
}

std::uint32_t FamilyDefaults::number_of(const std::string& config) {
  const auto [known, is_new] = numbers_.try_emplace(config, static_cast<std::uint32_t>(configs_.size()));
  if (is_new) configs_.push_back(config);
  return known->second;
}

// Asked for thousands of points; the space's defaults stay where they are.
std::uint32_t FamilyDefaults::number_of(const Config& config) {
  const auto known = numbers_of_defaults_.find(&config);
  if (known != numbers_of_defaults_.end()) return known->second;
  return numbers_of_defaults_.emplace(&config, number_of(config.text())).first->second;
}

std::optional<std::uint32_t> FamilyDefaults::number_met(const std::string& stored, const Problem& problem) {
  if (!stored.empty()) return number_of(stored);
  const Config* const today = of(problem);
  return today != nullptr ? std::optional(number_of(*today)) : std::nullopt;
}

bool FamilyDefaults::can_run(const Config& config, const Problem& problem) {
  return bound(problem).can_run(config);
}

BoundDefaults& FamilyDefaults::bound(const Problem& problem) {
  auto known =
      std::ranges::find_if(bounds_, [&](const Bound& bound) { return are_alike(bound.problem, problem); });
  if (known == bounds_.end())
    known = bounds_.insert(
        known, Bound{problem, space_.bind_defaults(expression_environment(problem, limits_), names_)});
  BoundDefaults& defaults = *known->defaults;
  for (std::size_t i = 0; i < varying_.size(); ++i)
    defaults.set(i, problem.dims.begin()[static_cast<std::ptrdiff_t>(varying_[i])].second);
  return defaults;
}

bool FamilyDefaults::are_alike(const Problem& a, const Problem& b) const {
  if (a.dims.size() != b.dims.size()) return false;
  auto other = b.dims.begin();
  auto varies = varies_.begin();
  for (const auto& [name, value] : a.dims) {
    if (!*varies++ && !(value == other->second)) return false;
    ++other;
  }
  return true;
}

}  // namespace moetune
