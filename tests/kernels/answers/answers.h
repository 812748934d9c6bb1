// The right answers of moetune's kernels in float64 on the CPU, which the references on the GPU and every configuration
// are held against. Small problems only. Pure functions; thread-safe.
#pragma once

#include <limits>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/moe/router_problem.h"

namespace moetune {

// Elements that no kernel writes, between the rows of a padded tensor.
inline constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();

// Outputs by name.
HostTensors answer_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors answer_on_cpu(const Problem& problem, const HostTensors& inputs);  // of the default call

HostTensors decode_attention_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors mla_decode_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors prefill_attention_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);

// Scores are rounded to f32 before they are compared, so that scores which the kernel cannot tell apart tie here too.
HostTensors route_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
// The outputs that follow from what a kernel chose, to compare all that it wrote with. A token has the experts that
// `ids` gives it if rounding explains them: no expert that it leaves out, or puts behind another, is better by more
// than 4 units in the last place of an f32 score; nor does it choose from a group by more than that of the groups'
// sums. Any other token has the experts of route_on_cpu. `ids` has as many elements as the output.
HostTensors route_on_cpu_as(const RouterShape& shape, std::int64_t logits_row, double scale, const HostTensors& inputs,
                            const std::vector<double>& ids);

// Whatever stands between the rows of an output is kUnwritten.
HostTensors act_mul_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors add_rmsnorm_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors few_rows_linear_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors gate_route_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors qk_norm_rope_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);
HostTensors kv_transfer_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);

// From ids that may be any integers.
HostTensors route_plan_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs);

}  // namespace moetune
