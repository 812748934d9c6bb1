// The space's defaults at the points of a family's dispatch table: hundreds of problems, made and judged without text.
// Not thread-safe. Refers to the family's kernel, interface and space, which must outlive it.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "search/bound_defaults.h"
#include "search/space.h"

namespace moetune {

class FamilyDefaults {
 public:
  // `like` are extents of any problem of the specialization.
  FamilyDefaults(const Kernel& kernel, const FamilyInterface& interface, const Assignment& specialization,
                 const DeviceLimits& limits, const Extents& like);

  // The default for the problem at a point; nullptr if there is no such problem, or no default for it. Valid as long
  // as this object; equal pointers are equal configurations.
  const Config* at(const TablePoint& point);
  // The problem of the last at() that returned a default.
  const Problem& problem() const { return *last_; }

 private:
  // The space's defaults for all problems that differ from this one in what varies only.
  struct Bound {
    Problem problem;
    std::unique_ptr<BoundDefaults> defaults;
  };
  BoundDefaults& bound(const Problem& problem);
  bool are_alike(const Problem& a, const Problem& b) const;

  const FamilyInterface& interface_;
  const Space& space_;
  const DeviceLimits limits_;
  const Extents like_;
  Problem even_, uneven_;  // moved from point to point
  const Problem* last_ = nullptr;
  std::vector<std::size_t> varying_;  // places among a problem's dimensions
  std::vector<std::string> names_;    // of these, in the space's expressions
  std::vector<bool> varies_;          // by place
  std::vector<Bound> bounds_;
};

}  // namespace moetune
