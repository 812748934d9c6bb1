// The router's outputs in float64 on the CPU.
#pragma once

#include "kernels/kernel.h"
#include "kernels/moe/router_problem.h"

namespace moetune {

// Logits (rows `logits_row` apart) and bias by name, `scale` as in the call. Scores are rounded to f32 before
// they are compared, so that scores which the kernel cannot tell apart tie here too. Thread-safe.
HostTensors route_on_cpu(const RouterShape& shape, std::int64_t logits_row, double scale,
                         const HostTensors& inputs);

// The outputs that follow from what a kernel chose, to compare all that it wrote with. A token has the experts that
// `ids` gives it if rounding explains them: no expert that it leaves out, or puts behind another, is better by more
// than 4 units in the last place of an f32 score; nor does it choose from a group by more than that of the groups'
// sums. Any other token has the experts of route_on_cpu. `ids` has as many elements as the output. Thread-safe.
HostTensors route_on_cpu_as(const RouterShape& shape, std::int64_t logits_row, double scale,
                            const HostTensors& inputs, const std::vector<double>& ids);

}  // namespace moetune
