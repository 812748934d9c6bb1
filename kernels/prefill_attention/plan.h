// How configurations of prefill_attention become launches, and the plan of its reference. Pure functions;
// thread-safe.
#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/prefill_attention/call.h"

namespace moetune {

std::unique_ptr<const Launcher> prefill_attention_launcher(const Config& config, const PrefillShape& shape,
                                                           const DeviceLimits& limits);
Plan prefill_attention_reference_plan(Reference which, const PrefillShape& shape, const PrefillCall& call);

}  // namespace moetune
