// What the kernels with planted bugs share: a name, no presets, any problem, and a launcher of their right
// plan. For tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/named_kernel.h"

namespace moetune {

class PlantedBase : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  std::unique_ptr<const Launcher> launcher(const Config&, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    const Plan plan = right_plan(problem["elements"], limits);
    return make_launcher(plan.unit, [plan](const Extents&, const Call&, LaunchPlan& out) { out = plan; });
  }

 private:
  virtual Plan right_plan(std::int64_t elements, const DeviceLimits& limits) const = 0;
};

}  // namespace moetune
