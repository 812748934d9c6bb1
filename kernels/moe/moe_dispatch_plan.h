// How a moe_dispatch configuration compiles and launches, and its reference. Pure functions; thread-safe.
#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/moe/moe_dispatch_problem.h"

namespace moetune {

std::unique_ptr<const Launcher> moe_dispatch_launcher(const Config& config, const MoeDispatchShape& shape,
                                                      const DeviceLimits& limits);
Plan moe_dispatch_reference_plan(Reference which, const MoeDispatchShape& shape, const Call& call);

}  // namespace moetune
