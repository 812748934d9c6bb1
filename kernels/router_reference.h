// The router's outputs in float64 on the CPU.
#pragma once

#include "kernels/kernel.h"
#include "kernels/router_problem.h"

namespace moetune {

// Logits (rows `logits_row` apart) and bias by name, `scale` as in the call. Scores are rounded to f32 before
// they are compared, so that scores which the kernel cannot tell apart tie here too. Thread-safe.
HostTensors route_on_cpu(const RouterShape& shape, std::int64_t logits_row, double scale,
                         const HostTensors& inputs);

}  // namespace moetune
