// How a moe_experts configuration compiles and launches, and its reference. Pure functions; thread-safe.
#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/moe/moe_experts_problem.h"

namespace moetune {

std::unique_ptr<const Launcher> moe_experts_launcher(const Config& config, const MoeExpertsShape& shape,
                                                     const DeviceLimits& limits);
Plan moe_experts_reference_plan(Reference which, const MoeExpertsShape& shape, const Call& call);

}  // namespace moetune
