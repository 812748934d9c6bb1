// How a decode_attention configuration becomes launches: grids, shared memory, tensor maps, scratch.
// Pure functions; thread-safe.
#pragma once

#include "kernels/decode_attention_problem.h"
#include "kernels/kernel.h"
#include "kernels/plan.h"

namespace moetune {

Plan decode_attention_plan(const Config& config, const DecodeShape& shape, const DeviceLimits& limits);
Plan decode_attention_reference_plan(Reference which, const DecodeShape& shape);

}  // namespace moetune
