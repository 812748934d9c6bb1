// The right answer of decode_attention in float64 on the CPU. For tests: small problems only. Pure;
// thread-safe.
#pragma once

#include "kernels/decode_attention_problem.h"
#include "kernels/kernel.h"

namespace moetune {

HostTensors decode_attention_on_cpu(const DecodeShape& shape, const HostTensors& inputs);

}  // namespace moetune
