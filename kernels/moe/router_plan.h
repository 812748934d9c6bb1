// How a router configuration compiles and launches, and its reference. Pure functions; thread-safe.
#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/moe/router_problem.h"

namespace moetune {

// The fields of a router's call, in their order.
enum RouterInteger { kLogitsRow };
enum RouterReal { kRouterScale };

std::unique_ptr<const Launcher> router_launcher(const Config& config, const RouterShape& shape,
                                                const DeviceLimits& limits);
Plan router_reference_plan(const RouterShape& shape, const Call& call);

// The shared memory of Layout of templates/router/place.cuh, in words of four bytes.
std::int64_t router_layout_words(std::int64_t experts);

}  // namespace moetune
