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
      uneven_(even_) {
  interface_.make_uneven(uneven_);
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
  Problem& problem = point.uneven ? uneven_ : even_;
  if (!interface_.set_extents(problem, interface_.extents_at(point, like_))) return nullptr;
  BoundDefaults& defaults = bound(problem);
  last_ = &problem;
  return defaults.find();
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
