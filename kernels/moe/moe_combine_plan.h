// How a moe_combine configuration compiles and launches, and its reference. Pure functions; thread-safe.
#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/moe/moe_problem.h"

namespace moetune {

void check_moe_combine_call(const MoeShape& shape, const Call& call);  // throws BadInput

std::unique_ptr<const Launcher> moe_combine_launcher(const Config& config, const MoeShape& shape,
                                                     const DeviceLimits& limits);
Plan moe_combine_reference_plan(Reference which, const MoeShape& shape, const Call& call);

}  // namespace moetune
