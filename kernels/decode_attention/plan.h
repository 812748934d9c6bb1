// How a decode_attention configuration becomes launches: grids, shared memory, tensor maps, scratch.
// Pure functions; thread-safe.
#pragma once

#include <memory>

#include "kernels/decode_attention/call.h"
#include "kernels/kernel.h"
#include "kernels/plan.h"

namespace moetune {

std::unique_ptr<const Launcher> decode_attention_launcher(const Config& config, const DecodeShape& shape,
                                                          const DeviceLimits& limits);
Plan decode_attention_reference_plan(Reference which, const DecodeShape& shape, const DecodeCall& call);

}  // namespace moetune
