// The right answer of decode_attention in float64 on the CPU. For tests: small problems only. Pure;
// thread-safe.
#pragma once

#include "kernels/decode_attention/call.h"
#include "kernels/kernel.h"

namespace moetune {

// Between the rows of a padded o: NaN.
HostTensors decode_attention_on_cpu(const DecodeShape& shape, const DecodeCall& call,
                                    const HostTensors& inputs);

}  // namespace moetune
