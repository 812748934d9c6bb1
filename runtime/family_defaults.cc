#include "runtime/family_defaults.h"

#include <algorithm>

#include "kernels/kernel_space.h"

namespace moetune {

FamilyDefaults::FamilyDefaults(const Kernel& kernel, const FamilyInterface& interface, const Assignment& specialization,
                               const DeviceLimits& limits, const Extents& like)
    : free_(kernel.free_dimensions()), varying_(interface.varying_dimensions()) {
  const Problem even = kernel.problem_of(specialization, like);
  Problem ragged = even;
  interface.make_ragged(ragged);
  for (const auto& [name, value] : even.dims) {
    if (!(ragged.dims.at(name) == value)) kinds_.push_back(name);
  }
  std::vector<std::string> names;
  for (const auto* all : {&free_, &kinds_}) {
    for (const std::string& name : *all) names.push_back("problem." + name);
  }
  const Assignment environment = expression_environment(even, limits);
  const Space& space = shared_space(kernel.name());
  if (const auto multiple = interface.multiple()) {
    bound_ = space.bind_defaults(environment, names, "problem." + multiple->name, "problem." + multiple->of,
                                 multiple->factor);
  } else {
    bound_ = space.bind_defaults(environment, names);
  }
  for (const std::string& name : kinds_) {
    even_.push_back(bound_->number(even.dims.at(name)));
    ragged_.push_back(bound_->number(ragged.dims.at(name)));
  }
  for (const Config& config : bound_->configs()) {
    texts_.push_back(config.text());
    numbers_.emplace(texts_.back(), static_cast<std::uint32_t>(numbers_.size()));
  }
}

FamilyDefaults::Values FamilyDefaults::values(const Extents& extents, bool ragged) const {
  Values all;
  for (const std::int64_t extent : extents) all.push_back(extent);
  for (const std::int64_t number : ragged ? ragged_ : even_) all.push_back(number);
  return all;
}

FamilyDefaults::Values FamilyDefaults::values(const Problem& problem) const {
  Values all;
  for (const std::string& name : free_) all.push_back(problem[name]);
  for (std::size_t i = 0; i < kinds_.size(); ++i) all.push_back(bound_->number(problem.dims.at(kinds_[i])));
  return all;
}

std::optional<std::uint32_t> FamilyDefaults::at(const Extents& extents, bool ragged) const {
  const Values here = values(extents, ragged);
  return bound_->find({here.data(), here.size()});
}

SpaceDefaults::Within FamilyDefaults::within(const Extents& low, const Extents& high, bool ragged) const {
  const Values first = values(low, ragged), last = values(high, ragged);
  BoundDefaults::Possible possible = bound_->find_within({first.data(), first.size()}, {last.data(), last.size()});
  return {std::move(possible.configs), possible.none};
}

std::optional<std::uint32_t> FamilyDefaults::of(const Problem& problem) const {
  const Values here = values(problem);
  return bound_->find({here.data(), here.size()});
}

std::optional<std::uint32_t> FamilyDefaults::number_met(const std::string& stored) const {
  const auto known = numbers_.find(stored);
  return known != numbers_.end() ? std::optional(known->second) : std::nullopt;
}

bool FamilyDefaults::can_run(const Config& config, const Problem& problem) {
  const Values here = values(problem);
  return bound_->can_run(config, {here.data(), here.size()});
}

bool FamilyDefaults::are_alike(const Problem& a, const Problem& b) const {
  return a.dims.size() == b.dims.size() &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), [&](const auto& mine, const auto& other) {
           return mine == other || std::ranges::find(varying_, mine.first) != varying_.end();
         });
}

}  // namespace moetune
