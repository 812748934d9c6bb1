// How a route_plan configuration compiles and launches, and its reference. Pure functions; thread-safe.
#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/moe/route_plan_problem.h"

namespace moetune {

std::unique_ptr<const Launcher> route_plan_launcher(const Config& config, const RoutePlanShape& shape,
                                                    const DeviceLimits& limits);
Plan route_plan_reference_plan(const RoutePlanShape& shape, const Call& call);

}  // namespace moetune
