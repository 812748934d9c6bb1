// What the kernels with planted bugs share: a name, no presets, any problem, and a launcher of their right
// plan. For tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace moetune {

class PlantedBase : public Kernel {
 public:
  explicit PlantedBase(std::string name) : name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return name_; }
  const ProblemSchema& schema() const override { return schema_; }
  const std::vector<Preset>& presets() const override { return presets_; }
  void check(const Problem&) const override {}

  std::unique_ptr<const Launcher> launcher(const Config&, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    const Plan plan = right_plan(problem["elements"], limits);
    return make_launcher(plan.unit, [plan](const Extents&, const Call&, LaunchPlan& out) { out = plan; });
  }

 private:
  virtual Plan right_plan(std::int64_t elements, const DeviceLimits& limits) const = 0;

  std::string name_;
  ProblemSchema schema_;
  std::vector<Preset> presets_;
};

}  // namespace moetune
