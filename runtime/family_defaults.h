// The space's defaults at the problems of a family, and what can run there: made and judged without text. Equal
// configurations have equal numbers.
//
// Immutable but for can_run(), which is for one thread at a time; all else is thread-safe. Refers to the kernel, the
// interface and the space, which must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/dispatch_table.h"
#include "kernels/kernel.h"
#include "search/bound_defaults.h"
#include "search/space.h"

namespace moetune {

class FamilyDefaults final : public SpaceDefaults {
 public:
  // `like` are extents of any problem of the specialization.
  FamilyDefaults(const Kernel& kernel, const FamilyInterface& interface, const Assignment& specialization,
                 const DeviceLimits& limits, const Extents& like);

  std::optional<std::uint32_t> at(const Extents& extents, bool ragged) const override;
  Within within(const Extents& low, const Extents& high, bool ragged) const override;
  std::optional<std::uint32_t> of(const Problem& problem) const;

  // By number.
  const std::vector<Config>& configs() const { return bound_->configs(); }
  const std::vector<std::string>& texts() const { return texts_; }
  // The number of the default that a result met; nullopt if it is no default of the family today, or was not stored.
  std::optional<std::uint32_t> number_met(const std::string& stored) const;

  // Whether the configuration can run at a problem of the family (Space::why_illegal, Rules::must).
  bool can_run(const Config& config, const Problem& problem);
  // Whether two problems of the kernel differ in what varies only (FamilyInterface::varying_dimensions): then they are
  // of one family.
  bool are_alike(const Problem& a, const Problem& b) const;

 private:
  using Values = FixedVector<std::int64_t, 8>;
  Values values(const Extents& extents, bool ragged) const;
  Values values(const Problem& problem) const;

  std::vector<std::string> free_;     // dimensions: the extents
  std::vector<std::string> kinds_;    // dimensions that tell even from ragged work
  Values even_, ragged_;              // of these
  std::vector<std::string> varying_;  // dimensions of alike problems
  std::unique_ptr<BoundDefaults> bound_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace moetune
