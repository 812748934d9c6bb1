// The space's defaults at the points of a family's dispatch table, and what can run at its problems: hundreds of them,
// made and judged without text. Equal configurations have equal numbers.
// Not thread-safe. Refers to the family's kernel, interface and space, which must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
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
  // Points stand for problems like these from now on.
  void set_like(const Extents& like) { like_ = like; }

  // The default for the problem at a point; nullptr if there is no such problem, or no default for it. Valid as long
  // as this object; equal pointers are equal configurations.
  const Config* at(const TablePoint& point);
  // The same of a problem of the kernel.
  const Config* of(const Problem& problem) { return bound(problem).find(); }
  // A number for a configuration, from 0 on; configs() has them in order.
  std::uint32_t number_of(const Config& config);
  std::uint32_t number_of(const std::string& config);
  // That of the default that a result at a problem met. One that was not stored is the space's of today.
  std::optional<std::uint32_t> number_met(const std::string& stored, const Problem& problem);
  const std::vector<std::string>& configs() const { return configs_; }
  // The problem of the last at() that returned a default.
  const Problem& problem() const { return *last_; }

  // Whether the configuration can run at a problem of the kernel (Space::why_illegal, Rules::must).
  bool can_run(const Config& config, const Problem& problem);
  // Whether two problems of the kernel differ in what varies only (FamilyInterface::varying_dimensions): then they are
  // of one family.
  bool are_alike(const Problem& a, const Problem& b) const;

 private:
  // The space's defaults for all problems that differ from this one in what varies only.
  struct Bound {
    Problem problem;
    std::unique_ptr<BoundDefaults> defaults;
  };
  // With the problem's values of what varies.
  BoundDefaults& bound(const Problem& problem);

  const FamilyInterface& interface_;
  const Space& space_;
  const DeviceLimits limits_;
  Extents like_;
  Problem even_, ragged_;  // moved from point to point
  const Problem* last_ = nullptr;
  std::vector<std::size_t> varying_;  // places among a problem's dimensions
  std::vector<std::string> names_;    // of these, in the space's expressions
  std::vector<bool> varies_;          // by place
  std::vector<Bound> bounds_;
  std::vector<std::string> configs_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<const Config*, std::uint32_t> numbers_of_defaults_;
};

}  // namespace moetune
